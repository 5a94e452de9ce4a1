"""The command line: what it prints, where, with which exit status, and what it leaves on disk."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType, SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from symgrad import __version__
from symgrad.cli import main
from symgrad.errors import SymgradError
from symgrad.spec import Spec, parse_spec

SPEC = "op: {op}\ntensors:\n  x:\noutputs:\n  y: 2*x\n"
BAD = "op: {op}\ntensors:\n  x:\noutputz:\n  y: 2*x  # [red]no markup[/red]\n"


def derivation() -> SimpleNamespace:
    step = SimpleNamespace(subject="dy/dx", rule="merge", before="[bold]a[/bold]", after="b" * 200, reason="shorter")
    form = {"subject": "y", "ulp32": 0.5, "ulp64": 1e9, "nonfinite": 0, "cost": 2.25}
    return SimpleNamespace(
        formula=[("y", "2*x")],
        derivatives=[("dy/dx", "2")],
        steps=[step],
        candidates=[SimpleNamespace(**form, text="2*x", chosen=True)],
        plan=[SimpleNamespace(what="nothing", bytes_per_element=0, reason="the derivative is constant")],
        accuracy=[SimpleNamespace(**form, composite_ulp32=None, composite_ulp64=0.75)],
        notes=["float16 loses much"],
    )


def compile_spec(spec: Spec) -> SimpleNamespace:
    """A compiler that needs no time; the op says what goes wrong."""
    if spec.op == "refused":
        raise SymgradError("no derivative is known")
    if spec.op == "crash":
        raise ZeroDivisionError("a bug")
    if spec.op == "die":
        os._exit(9)
    if spec.op == "slow":
        time.sleep(60)
    return SimpleNamespace(spec=spec, module=f"op = {spec.op!r}\n", test=f"import {spec.op}\n", derivation=derivation())


@pytest.fixture(autouse=True)
def workplace(monkeypatch, tmp_path):
    """A folder to run in, and a compiler that needs no time."""
    pipeline = ModuleType("symgrad.pipeline")
    pipeline.compile_spec = compile_spec
    monkeypatch.setitem(sys.modules, "symgrad.pipeline", pipeline)
    monkeypatch.chdir(tmp_path)


def run(*args: object) -> Result:
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    assert "Traceback" not in result.output or "-v" in args
    return result


def write(path: str, text: str = SPEC, op: str | None = None) -> Path:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text.format(op=op or file.stem))
    return file


def generated(folder: str = "generated") -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir()) if Path(folder).exists() else []


def test_gen_and_check():
    write("specs/a.yaml")
    write("specs/deep/b.yml")
    write("specs/.hidden/c.yaml")
    first = run("gen", "specs")
    assert first.exit_code == 0
    assert "specs/a.yaml: wrote generated/a.py, generated/test_a.py\n" in first.stdout
    assert first.stdout.splitlines()[-1] == "2 specs: 2 generated"
    assert "specs/a.yaml: note: float16 loses much" in first.stderr
    assert generated() == ["a.py", "b.py", "test_a.py", "test_b.py"]
    texts = {name: Path("generated", name).read_bytes() for name in generated()}
    assert run("gen", "specs").stdout == "2 specs: 2 unchanged\n"
    assert run("check", "specs").stdout == "4 files: 4 up to date\n"
    assert texts == {name: Path("generated", name).read_bytes() for name in generated()}


def test_check_tells_all_and_writes_nothing():
    for op in "abc":
        write(f"specs/{op}.yaml")
    run("gen", "specs", "-o", "out")
    write("specs/a.yaml", SPEC + "# changed\n")
    Path("out/b.py").write_text("# mine\n")
    Path("out/test_c.py").unlink()
    before = {name: Path("out", name).read_bytes() for name in generated("out")}
    result = run("check", "specs", "-o", "out", "-q")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "out/a.py: stale: the spec has changed",
        "out/test_a.py: stale: the spec has changed",
        "out/b.py: hand-edited: it does not start with symgrad's header",
        "out/test_c.py: missing",
    ]
    assert before == {name: Path("out", name).read_bytes() for name in generated("out")}
    assert run("check", "specs", "-o", "out").stdout.splitlines()[-1] == (
        "6 files: 2 up to date, 2 stale, 1 hand-edited, 1 missing"
    )
    assert run("check", "specs", "-o", "nowhere").exit_code == 1


def test_mistakes_in_the_form_of_the_contract():
    write("specs/a.yaml", BAD)
    write("specs/b.yaml")
    result = run("gen", "specs")
    assert result.exit_code == 1
    assert "specs/a.yaml:4:1: outputz: unknown key 'outputz'; did you mean 'outputs'?\noutputz:\n^\n" in result.stderr
    assert "specs/a.yaml:1:1: outputs: is missing" in result.stderr
    assert generated() == ["b.py", "test_b.py"]
    assert result.stdout.splitlines()[-1] == "2 specs: 1 generated, 1 failed"
    quiet = run("gen", "specs", "-q")
    assert (quiet.stdout, quiet.exit_code) == ("", 1)
    assert quiet.stderr in result.stderr


def test_a_hand_edited_file_takes_force():
    write("a.yaml")
    run("gen", "a.yaml")
    Path("generated/a.py").write_text("# mine\n")
    result = run("gen", "a.yaml")
    assert result.exit_code == 1
    assert "generated/a.py: hand-edited" in result.stderr
    assert Path("generated/a.py").read_text() == "# mine\n"
    assert run("gen", "a.yaml", "--force").exit_code == 0
    assert run("check", "a.yaml", "--force").exit_code == 0


def test_what_fails_in_the_compiler():
    for op in ("ok", "refused", "crash"):
        write(f"{op}.yaml")
    result = run("gen", ".")
    assert result.exit_code == 1
    assert "refused.yaml: no derivative is known\n" in result.stderr
    assert "crash.yaml: internal error: ZeroDivisionError: a bug\n" in result.stderr
    assert "report it" in result.stderr
    assert generated() == ["ok.py", "test_ok.py"]
    assert "in compile_spec\n" in run("gen", "crash.yaml", "-v").stderr


def test_one_op_in_two_specs_is_a_mistake_of_both():
    write("a.yaml", op="same")
    write("b.yaml", "# first line\n" + SPEC, op="same")
    result = run("gen", "a.yaml", "b.yaml")
    assert result.exit_code == 1
    assert "a.yaml:1:5: op: 'same' is also the op of b.yaml\nop: same\n    ^\n" in result.stderr
    assert "b.yaml:2:5: op: 'same' is also the op of a.yaml\nop: same\n    ^\n" in result.stderr
    assert generated() == []
    assert run("gen", "a.yaml", "./a.yaml", Path("a.yaml").resolve()).exit_code == 0


@pytest.mark.skipif(sys.platform != "linux", reason="the fake compiler reaches forked processes only")
def test_jobs_change_nothing():
    for op in ("a", "crash", "b", "refused", "c"):
        write(f"specs/{op}.yaml")
    one, two = run("gen", "specs", "-o", "one", "-j", 1), run("gen", "specs", "-o", "two", "-j", 2)
    assert one.output.replace("one/", "two/") == two.output
    assert all(Path("one", name).read_bytes() == Path("two", name).read_bytes() for name in generated("one"))


@pytest.mark.skipif(sys.platform != "linux", reason="the fake compiler reaches forked processes only")
def test_a_process_that_dies_fails_its_spec_only():
    for op in ("a", "die", "z"):
        write(f"specs/{op}.yaml")
    result = run("gen", "specs", "-j", 2)
    assert result.exit_code == 1
    assert "specs/die.yaml: the process that compiled it died" in result.stderr
    assert generated() == ["a.py", "test_a.py", "test_z.py", "z.py"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["gen"], "Missing argument 'SPEC...'"),
        (["gen", "none.yaml"], "'none.yaml' does not exist"),
        (["gen", "empty"], "No spec (*.yaml, *.yml) in the folder 'empty'"),
        (["gen", "a.yaml", "-o", "a.yaml"], "is a file"),
        (["gen", "a.yaml", "-j", "0"], "0 is not in the range"),
        (["gen", "a.yaml", "--nonsense"], "No such option"),
        (["gen", "-q", "-v", "a.yaml"], "exclude each other"),
        (["-q", "gen", "-v", "a.yaml"], "exclude each other"),
        (["nonsense"], "No such command"),
        (["new", "Not-Good"], "snake_case"),
        (["new", "torch"], "is taken"),
        (["new", "../up"], "snake_case"),
        (["completion", "tcsh"], "'tcsh' is not one of"),
    ],
)
def test_wrong_usage(args, message):
    Path("empty").mkdir()
    write("a.yaml")
    result = run(*args)
    assert result.exit_code == 2
    assert message in result.stderr
    assert generated() == []


@pytest.mark.parametrize("args", [["-q", "gen", "a.yaml"], ["gen", "a.yaml", "-q"], ["-q", "gen", "-q", "a.yaml"]])
def test_quiet_on_both_sides_of_the_command(args):
    write("a.yaml")
    result = run(*args)
    assert (result.output, result.exit_code) == ("", 0)
    assert generated() == ["a.py", "test_a.py"]


def test_files_in_the_way():
    write("a.yaml")
    Path("generated/test_a.py").mkdir(parents=True)
    for command in ("gen", "check"):
        result = run(command, "a.yaml")
        assert result.exit_code == 1
        assert result.stderr.splitlines()[-1] == ("generated/test_a.py: a folder stands where the file should be")
    assert generated() == ["test_a.py"]


def test_control_characters_do_not_reach_the_terminal():
    write("a\x1b[31m.yaml", BAD, op="a")
    assert "\x1b" not in run("gen", ".").output


def test_explain():
    write("specs/a.yaml", SPEC + "summary: '[bold]Twice[/bold]'\n")
    result = run("explain", "specs")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:2] == ["a  (specs/a.yaml)", "[bold]Twice[/bold]"]
    for piece in ("= 2*x", "merge: shorter", "[bold]a[/bold]", "b" * 200, "1e+09", "- float16 loses much"):
        assert piece in result.stdout
    assert all(line == line.rstrip() for line in result.stdout.splitlines())
    assert run("explain", write("bad.yaml", BAD)).exit_code == 1


def test_new():
    result = run("new", "my_op")
    assert result.exit_code == 0
    path = Path("specs/my_op.yaml")
    text = path.read_text()
    assert parse_spec(text).op == "my_op"
    assert all(len(line) <= 100 and line == line.rstrip() for line in text.splitlines())
    again = run("new", "my_op")
    assert (again.exit_code, again.stderr) == (1, "specs/my_op.yaml: exists already\n")
    assert run("new", "my_op", "-o", "other").exit_code == 0
    assert run("gen", "specs").exit_code == 0


def test_what_new_says_in_comments_is_right():
    """Every optional key, without its ``#`` and beside the tensors it speaks of, leaves a good spec."""
    run("new", "my_op")
    text = Path("specs/my_op.yaml").read_text()
    for inner in ("target", "bias", "scale", "reduction"):
        text, found = re.subn(rf"^  # ({inner}: )", r"  \1", text, flags=re.MULTILINE)
        assert found == 1
        parse_spec(text)
    blocks = re.findall(r"^# \w+:.*\n(?:#   .*\n)*", text, re.MULTILINE)
    assert [block.split(":")[0] for block in blocks] == [
        "# reference", "# doc", "# gradients", "# module", "# options", "# test"
    ]  # fmt: skip
    for block in blocks:
        parse_spec(text.replace(block, re.sub("^# ", "", block, flags=re.MULTILINE)))


def test_schema_and_version():
    assert json.loads(run("schema").stdout)["title"] == "symgrad spec"
    assert run("--version").stdout == f"symgrad {__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell):
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_SYMGRAD_COMPLETE" in result.stdout


def python(*args: str, env: Mapping[str, str] = MappingProxyType({}), **options: object) -> subprocess.Popen[str]:
    """A process that finds this symgrad, in whatever folder it runs."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), **env}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, *args], env=environment, text=True, **pipes, **options)


def test_help_is_quick_and_light():
    run_help = "from symgrad.cli import main; main(['--help'], standalone_mode=False)"
    code = f"import sys; {run_help}; print(*sys.modules)"
    start = time.perf_counter()
    out, _ = python("-c", code).communicate()
    assert time.perf_counter() - start < 2  # generous: the machine may be busy
    assert "gen" in out
    heavy = {"rich", "sympy", "torch", "mpmath", "jinja2", "ruamel.yaml", "networkx", "multiprocessing"}
    assert not heavy & set(out.splitlines()[-1].split())


def test_from_new_to_check_with_the_real_compiler():
    """In processes of their own: the compiler is not replaced there. Generating needs no torch."""
    for args in (["new", "my_op"], ["gen", "specs"], ["check", "specs"], ["explain", "specs"]):
        process = python("-X", "importtime", "-m", "symgrad", *args)
        out, err = process.communicate()
        told = [line for line in err.splitlines() if not line.startswith("import time:")]
        assert process.returncode == 0, told
        assert not re.search(r"\| +torch$", err, re.MULTILINE)
        assert out
    assert generated() == ["my_op.py", "test_my_op.py"]
    for name in generated():
        compile(Path("generated", name).read_text(), name, "exec")


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("group", [False, True])
def test_ctrl_c(jobs, group):
    """Whether the signal reaches all processes (a terminal) or the command alone (kill)."""
    for op in ("a", "slow", "z"):
        write(f"specs/{op}.yaml")
    find_this = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})"
    process = python(
        "-c", f"{find_this}; from test_cli import interrupted; interrupted()", jobs, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "specs/a.yaml: wrote generated/a.py, generated/test_a.py\n"
    (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=10)
    assert process.returncode == 130, err
    assert err.strip().splitlines()[-1] == "interrupted"
    assert "Traceback" not in out + err
    assert generated() == ["a.py", "test_a.py"]


def interrupted() -> None:
    """The program of the test above, in a process of its own."""
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
