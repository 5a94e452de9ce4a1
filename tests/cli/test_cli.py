"""The command line: what it prints, where, with which exit status, and what it leaves on disk."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from symgrad import __version__
from symgrad.cli import main
from symgrad.errors import SymgradError
from symgrad.files import read_header, render
from symgrad.spec import Spec, parse_spec

SPEC = "op: {op}\ntensors:\n  x:\noutputs:\n  y: 2*x\n"
BAD = "op: {op}\ntensors:\n  x:\noutputz:\n  y: 2*x  # [red]no markup[/red]\n"


def derivation(proofs: Sequence[SimpleNamespace] = ()) -> SimpleNamespace:
    step = SimpleNamespace(subject="dy/dx", rule="merge", before="[bold]a[/bold]", after="b" * 200, reason="shorter")
    form = {"subject": "y", "ulp32": 0.5, "ulp64": 1e9, "nonfinite": 0, "cost": 2.25}
    return SimpleNamespace(
        formula=[("y", "2*x")],
        derivatives=[("dy/dx", "2")],
        steps=[step],
        candidates=[SimpleNamespace(**form, text="2*x", chosen=True)],
        plan=[SimpleNamespace(what="nothing", bytes_per_element=0, reason="the derivative is constant")],
        accuracy=[SimpleNamespace(**form, composite_ulp32=9, composite_ulp64=0.75, composite_nonfinite=0, local=False)],
        notes=["float16 loses much"],
        kept=[],
        proofs=proofs,
        prover="SymPy 9",
    )


def compile_spec(spec: Spec, package: str = "", prove: bool = False, measured: object = None) -> SimpleNamespace:
    """A compiler that needs no time; the op says what goes wrong, and the judge refutes `wrong`."""
    if spec.op == "refused":
        raise SymgradError("no derivative is known")
    if spec.op == "crash":
        raise ZeroDivisionError("a bug")
    if spec.op == "die":
        os._exit(9)
    if spec.op == "slow":
        time.sleep(60)
    factor = spec.outputs[0].formula.text.partition("*")[0]
    files = {
        f"{spec.op}.py": f"op = {spec.op!r}, {factor}\n",
        f"test_{spec.op}.py": f"import {package or '.'}.{spec.op}\n",
    }
    if spec.options.kernels == "all":
        files |= dict.fromkeys((f"{spec.op}.cpp", f"{spec.op}_triton.py"), "...\n")
    compiled.append(spec.op)
    outcome = "refuted" if spec.op == "wrong" else "proven"
    proofs = [SimpleNamespace(subject="dy/dx", outcome=outcome, text=f"{outcome} (at x = 2)")] if prove else []
    return SimpleNamespace(
        spec=spec, files=files, shared={"_runtime.py": "r = 1\n"}, derivation=derivation(proofs), mistakes=()
    )


compiled: list[str] = []  # by the compiler above, in this process


@pytest.fixture(autouse=True)
def workplace(monkeypatch, tmp_path):
    """A folder to run in, and a compiler that needs no time."""
    pipeline = ModuleType("symgrad.pipeline")
    pipeline.compile_spec = compile_spec
    monkeypatch.setitem(sys.modules, "symgrad.pipeline", pipeline)
    monkeypatch.chdir(tmp_path)
    compiled.clear()


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
    """The files of operations, without those that all share."""
    found = {path.name for path in Path(folder).iterdir()} if Path(folder).exists() else set()
    return sorted(found - {"__init__.py", "_runtime.py"})


def test_what_is_said_of_a_function_names_it_for_a_python_file_may_hold_several():
    body = "@symgrad.op\ndef right(x): return x\n@symgrad.op\ndef wrong(x): return x\n"
    Path("ops.py").write_text(f"import symgrad\n{body}")
    refused = run("gen", "ops.py", "--prove")
    assert "ops.py::right: proven by SymPy 9" in refused.output
    assert "ops.py::wrong: dy/dx: refuted" in refused.output


def test_gen_and_check_prove_what_they_are_asked_to_and_write_nothing_that_is_refuted():
    write("specs/right.yaml")
    write("specs/wrong.yaml")
    refused = run("gen", "specs", "--prove")
    assert refused.exit_code == 1
    assert "specs/right.yaml: proven by SymPy 9" in refused.output
    assert "specs/wrong.yaml: dy/dx: refuted (at x = 2)" in refused.output
    assert generated() == ["right.py", "test_right.py"]
    assert run("gen", "specs").exit_code == 0
    assert run("check", "specs").exit_code == 0
    assert run("check", "specs/right.yaml", "--prove").exit_code == 0
    assert run("check", "specs", "--prove").exit_code == 1


def test_gen_with_kernels_writes_and_checks_the_passes():
    path = write("specs/a.yaml")
    assert run("gen", path, "--kernels").exit_code == 0
    assert generated() == ["a.cpp", "a.py", "a_triton.py", "test_a.py"]
    assert run("check", path, "--kernels").exit_code == 0
    source = Path("generated/a.cpp")
    assert source.read_text().startswith("// Generated by symgrad")
    source.write_text(source.read_text() + "int more;\n")
    assert "generated/a.cpp: hand-edited" in run("check", path, "--kernels").stdout
    Path("generated/a_triton.py").unlink()
    assert "generated/a_triton.py: missing" in run("check", path, "--kernels").stdout


def test_passes_go_with_the_option_that_asked_for_them():
    path = write("specs/a.yaml")
    run("gen", path, "--kernels")
    Path("generated/a_triton.py").write_text("# mine\n")
    told = run("gen", path)
    left = "generated/a.cpp: left over: specs/a.yaml gives no such file now; `symgrad gen --prune` removes it\n"
    assert (told.exit_code, f"note: {left}" in told.stderr) == (0, True)
    told = run("check", path)
    assert (told.exit_code, left in told.stdout) == (1, True)
    assert "removed generated/a.cpp\n" in run("gen", path, "--prune").stdout
    assert generated() == ["a.py", "a_triton.py", "test_a.py"]  # what somebody else wrote stays
    assert run("check", path).exit_code == 0


def test_gen_and_check():
    write("specs/a.yaml")
    write("specs/deep/b.yml")
    write("specs/.hidden/c.yaml")
    first = run("gen", "specs")
    assert first.exit_code == 0
    assert first.stdout.splitlines()[0] == (
        "specs/a.yaml: wrote generated/_runtime.py, generated/__init__.py, generated/a.py, generated/test_a.py"
    )
    assert first.stdout.splitlines()[1] == "specs/deep/b.yml: wrote generated/b.py, generated/test_b.py"
    assert first.stdout.splitlines()[-1] == "2 specs: 2 generated"
    assert "specs/a.yaml: note: float16 loses much" in first.stderr
    assert generated() == ["a.py", "b.py", "test_a.py", "test_b.py"]
    texts = {name: Path("generated", name).read_bytes() for name in generated()}
    assert run("gen", "specs").stdout == "2 specs: 2 unchanged\n"
    assert run("check", "specs").stdout == "6 files: 6 up to date\n"
    assert texts == {name: Path("generated", name).read_bytes() for name in generated()}


def test_check_tells_all_and_writes_nothing():
    for op in "abc":
        write(f"specs/{op}.yaml")
    run("gen", "specs", "-o", "out")
    write("specs/a.yaml", SPEC.replace("2", "3"))
    Path("out/b.py").write_text("# mine\n")
    Path("out/test_c.py").unlink()
    before = {name: Path("out", name).read_bytes() for name in generated("out")}
    result = run("check", "specs", "-o", "out", "-q")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "out/a.py: stale: the spec or an option has changed",
        "out/test_a.py: stale: the spec or an option has changed",
        "out/b.py: hand-edited: it does not start with symgrad's header",
        "out/test_c.py: missing",
    ]
    assert before == {name: Path("out", name).read_bytes() for name in generated("out")}
    assert run("check", "specs", "-o", "out").stdout.splitlines()[-1] == (
        "8 files: 4 up to date, 2 stale, 1 hand-edited, 1 missing"
    )
    assert run("check", "specs", "-o", "nowhere").exit_code == 1


@pytest.mark.parametrize("command", ["gen", "check"])
def test_what_is_up_to_date_is_not_compiled(command):
    for op in "ab":
        write(f"specs/{op}.yaml")
    run("gen", "specs", "-j", 1)
    compiled.clear()
    write("specs/a.yaml", "# why\n" + SPEC)
    assert run(command, "specs", "-j", 1).exit_code == 0
    assert compiled == []
    write("specs/a.yaml", SPEC.replace("2", "3"))
    run(command, "specs", "-j", 1)
    assert compiled == ["a"]


def test_full_compiles_everything_and_finds_what_headers_do_not_tell():
    write("specs/a.yaml")
    run("gen", "specs", "-j", 1)
    path = Path("generated/a.py")
    now = read_header("a.py", path.read_text())
    assert now is not None
    older = render({"a.py": now.body.replace("2", "7")}, spec_path="specs/a.yaml", source=now.source)["a.py"]
    path.write_text(older.replace("files: a.py", f"files: {' '.join(now.names)}"))  # as an older compiler wrote it
    assert run("check", "specs").exit_code == 0
    found = run("check", "specs", "--full", "-j", 1)
    assert (found.exit_code, "generated/a.py: stale: symgrad writes it differently now" in found.stdout) == (1, True)
    assert run("gen", "specs").stdout == "1 spec: 1 unchanged\n"
    assert "wrote generated/a.py" in run("gen", "specs", "--full").stdout
    assert run("check", "specs", "--full").exit_code == 0


def test_a_compiler_that_changed_is_noticed(monkeypatch):
    for op in "ab":
        write(f"specs/{op}.yaml")
    run("gen", "specs", "-j", 1)
    monkeypatch.setattr("symgrad.files.folder.compiler_hash", lambda: "another")
    for command, expected in (("check", ["a", "b"]), ("gen", ["a", "b"]), ("check", [])):
        compiled.clear()
        assert run(command, "specs", "-j", 1).exit_code == 0
        assert compiled == expected


def test_files_of_a_spec_that_was_renamed_or_removed_are_left_over():
    for op in "abc":
        write(f"specs/{op}.yaml")
    run("gen", "specs")
    Path("specs/a.yaml").unlink()
    write("specs/b.yaml", op="beta")
    told = run("gen", "specs")
    assert told.exit_code == 0
    found = run("check", "specs")
    assert found.exit_code == 1
    assert "generated/a.py: left over: specs/a.yaml is gone; `symgrad gen --prune` removes it\n" in found.stdout
    assert "generated/test_b.py: left over: specs/b.yaml gives no such file now" in found.stdout
    Path("generated/a.py").write_text(Path("generated/a.py").read_text() + "mine = 1\n")
    pruned = run("gen", "specs", "--prune")
    assert "removed generated/test_a.py\n" in pruned.stdout
    assert "generated/a.py: left over: specs/a.yaml is gone; edited by hand; --force removes it, too" in pruned.stderr
    assert generated() == ["a.py", "beta.py", "c.py", "test_beta.py", "test_c.py"]
    run("gen", "specs", "--prune", "--force")
    assert run("check", "specs").stdout == "6 files: 6 up to date\n"


def test_a_spec_that_fails_keeps_its_files():
    for op in "ab":
        write(f"specs/{op}.yaml")
    run("gen", "specs")
    write("specs/a.yaml", BAD)
    run("gen", "specs", "--prune")
    assert generated() == ["a.py", "b.py", "test_a.py", "test_b.py"]
    assert "left over" not in run("check", "specs").stdout


def test_one_spec_of_several_leaves_the_others_files_alone():
    for op in "ab":
        write(f"specs/{op}.yaml")
    run("gen", "specs")
    assert run("check", "specs/a.yaml").exit_code == 0
    run("gen", "specs/a.yaml", "--prune")
    assert generated() == ["a.py", "b.py", "test_a.py", "test_b.py"]


def test_tests_in_a_folder_of_their_own():
    write("specs/a.yaml")
    write("src/pkg/__init__.py", "")
    args = ("specs", "-o", "src/pkg/ops", "--tests", "tests/ops")
    assert run("gen", *args).exit_code == 0
    assert generated("src/pkg/ops") == ["a.py"]
    assert generated("tests/ops") == ["test_a.py"]
    assert "import pkg.ops.a\n" in Path("tests/ops/test_a.py").read_text()
    assert run("check", *args).stdout == "4 files: 4 up to date\n"
    Path("specs/a.yaml").rename("specs/b.yaml")
    write("specs/b.yaml")
    assert "tests/ops/test_a.py: left over" in run("check", *args).stdout


def test_a_shared_file_that_was_edited_is_told_once():
    for op in "ab":
        write(f"specs/{op}.yaml")
    run("gen", "specs")
    path = Path("generated/_runtime.py")
    path.write_text(path.read_text() + "more = 1\n")
    assert "generated/_runtime.py: hand-edited\n" in run("check", "specs").stdout
    for op in "ab":
        write(f"specs/{op}.yaml", SPEC.replace("2", "3"))
    told = run("gen", "specs")
    assert told.exit_code == 1
    assert told.stderr.count("generated/_runtime.py: hand-edited") == 1
    assert run("gen", "specs", "--force").exit_code == 0
    assert run("check", "specs").exit_code == 0


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


def test_what_does_not_compile_is_not_converted():
    write("a.yaml")
    write("b.yaml", "op: {op}\ntensors: {{x: }}\noutputs: {{y: x +}}\n")
    result = run("convert", "a.yaml", "b.yaml", "-o", "out")
    assert result.exit_code == 1 and "b.yaml:3:17: outputs.y: an operand is missing" in result.stderr
    assert [p.name for p in Path("out").iterdir()] == ["a.yaml"]


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


def test_a_function_with_a_mistake_does_not_stop_the_others_of_its_file():
    good = "@op\ndef good_one(x):\n    return sin(x)\n"
    Path("ops.py").write_text(f"from symgrad import op\n@op\ndef bad_one(x, y: complex):\n    return x * y\n{good}")
    told = run("gen", "ops.py")
    assert (told.exit_code, told.stdout.splitlines()[-1]) == (1, "2 specs: 1 generated, 1 failed")
    assert "good_one.py" in generated() and "bad_one.py" not in generated()


def test_one_op_in_two_specs_is_a_mistake_of_both():
    write("a.yaml", op="same")
    write("b.yaml", "# first line\n" + SPEC, op="same")
    result = run("gen", "a.yaml", "b.yaml")
    assert result.exit_code == 1
    assert "a.yaml:1:5: op: 'same' is also the op of b.yaml\nop: same\n    ^\n" in result.stderr
    assert "b.yaml:2:5: op: 'same' is also the op of a.yaml\nop: same\n    ^\n" in result.stderr
    assert generated() == []
    assert run("gen", "a.yaml", "./a.yaml", Path("a.yaml").resolve()).exit_code == 0


def test_two_specs_that_would_write_one_file_both_fail():
    write("a.yaml", SPEC + "options: {{targets: [torch, jax]}}\n", op="sq")
    write("b.yaml", op="sq_jax")
    result = run("gen", "a.yaml", "b.yaml")
    assert result.exit_code == 1
    assert "a.yaml:1:5: op: 'sq' and 'sq_jax' of b.yaml would be written to one file, sq_jax.py; rename" in (
        result.stderr
    )
    assert "b.yaml:1:5: op: 'sq_jax' and 'sq' of a.yaml" in result.stderr
    assert generated() == []


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
    write("a.yaml")
    result = run(*args)
    assert result.exit_code == 2
    assert message in result.stderr
    assert generated() == []


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("none.yaml", "none.yaml:1:1: no such file or directory"),
        ("no/folder", "no/folder:1:1: no such file or directory"),
        ("empty", "empty: no spec (*.yaml, *.yml) in this folder"),
    ],
)
@pytest.mark.parametrize("command", ["gen", "check", "explain"])
def test_a_path_with_no_spec_fails_alone(command, path, message):
    Path("empty").mkdir()
    write("a.yaml")
    write("b.yaml")
    run("gen", "b.yaml")
    result = run(command, "a.yaml", path, "b.yaml")
    assert result.exit_code == 1
    assert message in result.stderr
    assert "b.py" in generated() and ("a.py" in generated()) == (command == "gen")
    assert run("gen", path).exit_code == 1


def test_a_locked_folder_fails_alone(monkeypatch):
    write("specs/a.yaml")
    Path("specs/locked").mkdir()
    scandir = os.scandir

    def guarded(path):
        if os.fspath(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    result = run("gen", "specs")
    assert (result.exit_code, generated()) == (1, ["a.py", "test_a.py"])
    assert "specs/locked: the folder cannot be read: permission denied" in result.stderr


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


def test_explain_shows_the_derivation_as_it_is():
    write("specs/a.yaml", SPEC + "summary: '[bold]Twice[/bold]'\n")
    result = run("explain", "specs")
    assert result.exit_code == 0
    title, place, summary, *_ = result.stdout.splitlines()
    assert title.startswith("a: ") and title.endswith("proven by SymPy 9")
    assert (place, summary) == ("from specs/a.yaml", "[bold]Twice[/bold]")
    for piece in ("= 2*x", "merge: shorter", "[bold]a[/bold]", "b" * 200, "1e+09", "- float16 loses much"):
        assert piece in result.stdout
    assert all(line == line.rstrip() for line in result.stdout.splitlines())
    assert run("explain", write("bad.yaml", BAD)).exit_code == 1


def test_new_writes_a_spec_once():
    result = run("new", "my_op")
    assert result.exit_code == 0
    path = Path("specs/my_op.yaml")
    text = path.read_text()
    assert parse_spec(text).op == "my_op"
    assert text.startswith("# yaml-language-server: $schema=.symgrad.schema.json\n")
    assert json.loads(Path("specs/.symgrad.schema.json").read_text())["title"] == "symgrad spec"
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


def test_a_spec_from_the_standard_input():
    result = CliRunner().invoke(main, ["gen", "-"], input=SPEC.format(op="a"))
    assert (result.exit_code, generated()) == (0, ["a.py", "test_a.py"])
    assert "# spec: <stdin>\n" in Path("generated/a.py").read_text()
    assert CliRunner().invoke(main, ["check", "-"], input=SPEC.format(op="a")).exit_code == 0
    wrong = CliRunner().invoke(main, ["gen", "-"], input=BAD.format(op="a"))
    assert wrong.exit_code == 1 and "<stdin>:4:1: outputz: unknown key" in wrong.stderr
    write("specs/b.yaml")
    assert "left over" not in run("gen", "specs").stderr  # of what no file gave, nobody can tell that it is gone


@pytest.mark.parametrize("option", ["--dry-run", "--diff"])
def test_what_would_be_written_is_told_and_not_written(option):
    write("specs/a.yaml")
    told = run("gen", "specs", option)
    assert told.exit_code == 0 and not Path("generated").exists()
    assert "specs/a.yaml: would write generated/_runtime.py, " in told.stdout
    assert told.stdout.splitlines()[-1] == "1 spec: 1 would change"
    run("gen", "specs")
    write("specs/a.yaml", SPEC.replace("2", "3"))
    write("specs/old.yaml")
    run("gen", "specs/old.yaml")
    Path("specs/old.yaml").unlink()
    before = {name: Path("generated", name).read_bytes() for name in generated()}
    told = run("gen", "specs", option, "--prune")
    assert ("-op = 'a', 2\n+op = 'a', 3\n" in told.stdout) == (option == "--diff")
    assert "would remove generated/old.py\n" in told.stdout
    assert before == {name: Path("generated", name).read_bytes() for name in generated()}
    assert run("gen", "specs/a.yaml", option).exit_code == 0
    Path("generated/a.py").write_text("mine = 1\n")
    assert "hand-edited" in run("gen", "specs", option).stderr
