"""The command line in processes of its own: with the real compiler, signals, and readers that go away."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType

import pytest

from symgrad.cli import main
from tests.cli.test_cli import SPEC, compile_spec, generated, workplace, write

__all__ = ["workplace"]  # a fixture for every test here


def python(*args: str, env: Mapping[str, str] = MappingProxyType({}), **options: object) -> subprocess.Popen[str]:
    """A process that finds this symgrad, in whatever folder it runs."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **env}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, *args], env=environment, text=True, **pipes, **options)


def test_help_is_quick_and_light():
    run_help = "from symgrad.cli import main; main(['--help'], standalone_mode=False)"
    code = f"import sys; {run_help}; print(*sys.modules)"
    out, _ = python("-c", code).communicate()
    assert "gen" in out
    heavy = {"rich", "sympy", "torch", "mpmath", "jinja2", "ruamel.yaml", "multiprocessing"}
    assert not heavy & set(out.splitlines()[-1].split())


def test_from_new_to_check_with_the_real_compiler():
    """In processes of their own: the compiler is not replaced there. Generating needs no torch."""
    for args in (["new", "my_op"], ["gen", "specs"], ["check", "specs"], ["explain", "specs"]):
        process = python("-X", "importtime", "-m", "symgrad", *args)
        out, err = process.communicate()
        told = [line for line in err.splitlines() if not line.startswith("import time:")]
        assert process.returncode == 0, told
        imported = set(re.findall(r"\| +([\w.]+)$", err, re.MULTILINE))
        assert "torch" not in imported
        if args[0] == "check":
            assert not imported & {"sympy", "mpmath", "jinja2", "symgrad.pipeline"}
        assert out
    assert {"my_op.py", "my_op.cpp", "test_my_op.py"} <= set(generated())
    for name in ("my_op.py", "test_my_op.py"):
        compile(Path("generated", name).read_text(), name, "exec")


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("group", [False, True])
def test_ctrl_c(jobs, group):
    """Whether the signal reaches all processes (a terminal) or the command alone (kill)."""
    for op in ("a", "slow", *(f"z{k}" for k in range(30))):
        write(f"specs/{op}.yaml")
    start = "from tests.cli.test_processes import interrupted; interrupted()"
    process = python("-c", start, jobs, start_new_session=True)
    assert process.stdout is not None
    assert (
        process.stdout.readline()
        == "specs/a.yaml: wrote generated/_runtime.py, generated/__init__.py, generated/a.py, generated/test_a.py\n"
    )
    (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert err.strip().splitlines()[-1] == "interrupted"
    assert "Traceback" not in out + err
    assert generated() == ["a.py", "test_a.py"]


def interrupted() -> None:
    """The program of the test above, in a process of its own."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which shells have their background jobs ignore
    pipeline = ModuleType("symgrad.pipeline")
    pipeline.compile_spec = compile_spec
    sys.modules["symgrad.pipeline"] = pipeline
    main(["gen", "specs", "-j", sys.argv[1]])


@pytest.mark.skipif(os.name != "posix", reason="pipes")
@pytest.mark.parametrize("command", ["schema", "--help"])
def test_a_reader_that_goes_away(command):
    process = python("-m", "symgrad", command)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.wait()


def test_output_that_the_encoding_lacks():
    write("a.yaml", SPEC + "summary: 'naïve ∂y'\nzzz: ∂\n")
    environment = {"PYTHONIOENCODING": "ascii"}
    out, err = python("-m", "symgrad", "gen", "a.yaml", env=environment).communicate()
    assert "a.yaml:7:1: zzz: unknown key" in err
    assert "Traceback" not in out + err


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.skipif(os.name == "nt", reason="a shell closes the output")
def test_an_output_that_the_shell_has_closed_is_no_traceback():
    command = f"{sys.executable} -m symgrad --version >&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120)
    assert "Traceback" not in done.stderr


def test_watch_generates_again_when_a_spec_changes():
    write("specs/a.yaml")
    process = python("-c", "from tests.cli.test_processes import watched; watched()", start_new_session=True)
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    assert next(lines).startswith("specs/a.yaml: wrote ")
    assert [next(lines), next(lines)] == ["1 spec: 1 generated\n", "watching; Ctrl-C ends it\n"]
    write("specs/b.yaml", SPEC.replace("outputs", "outputz"))
    assert next(lines) == "2 specs: 1 unchanged, 1 failed\n"
    next(lines)
    write("specs/b.yaml")
    assert next(lines) == "specs/b.yaml: wrote generated/b.py, generated/test_b.py\n"
    assert [next(lines), next(lines)] == ["2 specs: 1 unchanged, 1 generated\n", "watching; Ctrl-C ends it\n"]
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "Traceback" not in err and "unknown key 'outputz'" in err


def watched() -> None:
    """The program of the test above, in a process of its own."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which shells have their background jobs ignore
    pipeline = ModuleType("symgrad.pipeline")
    pipeline.compile_spec = compile_spec
    sys.modules["symgrad.pipeline"] = pipeline
    main(["watch", "specs", "-j", "1"])
