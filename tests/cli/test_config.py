"""The project's table: where it is found, what it may hold, and what of it holds beside options."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from symgrad.cli.config import Config, read_config
from symgrad.errors import SymgradError
from tests.cli.test_cli import SPEC, generated, run, workplace, write

__all__ = ["workplace"]  # a fixture for every test here

TABLE = """\
[project]
name = "mypkg"

[tool.symgrad]
specs = ["specs", "more/extra.yaml"]
out = "mypkg/ops"
tests = "tests/ops"
"""


def project(text: str = TABLE) -> None:
    Path("pyproject.toml").write_text(text)
    write("specs/a.yaml")
    write("more/extra.yaml")
    write("mypkg/__init__.py", "")


def test_gen_and_check_without_arguments_do_what_the_table_says():
    project()
    assert run("gen").exit_code == 0
    assert generated("mypkg/ops") == ["a.py", "extra.py"]
    assert generated("tests/ops") == ["test_a.py", "test_extra.py"]
    assert "import mypkg.ops.a\n" in Path("tests/ops/test_a.py").read_text()
    assert run("check").stdout == "6 files: 6 up to date\n"
    Path("specs/a.yaml").unlink()
    write("specs/b.yaml")
    assert "mypkg/ops/a.py: left over" in run("check").stdout


def test_the_table_holds_in_folders_below():
    project()
    os.chdir("specs")
    assert run("gen").exit_code == 0
    assert generated("../mypkg/ops") == ["a.py", "extra.py"]
    os.chdir("..")
    assert run("check").exit_code == 0


def test_the_nearest_table_holds():
    project()
    Path("specs/pyproject.toml").write_text("[tool.symgrad]\nout = 'here'\n")
    Path("more/pyproject.toml").write_text("[tool.other]\nspecs = 3\n")
    assert read_config(Path("specs")) == Config(Path("specs/pyproject.toml").resolve(), out=Path("here"))
    assert read_config(Path("more")).specs == (Path("../specs"), Path("extra.yaml"))


def test_options_go_before_the_table():
    project()
    run("gen", "specs/a.yaml")
    assert (generated("mypkg/ops"), generated("tests/ops")) == (["a.py"], ["test_a.py"])
    run("gen", "specs/a.yaml", "-o", "elsewhere")
    assert generated("elsewhere") == ["a.py", "test_a.py"]
    run("gen", "specs/a.yaml", "--tests", "mytests")
    assert generated("mytests") == ["test_a.py"]


def test_kernels_of_the_table():
    project(TABLE + "kernels = true\n")
    run("gen", "specs/a.yaml")
    assert generated("mypkg/ops") == ["a.cpp", "a.py", "a_triton.py"]
    run("gen", "specs/a.yaml", "--no-kernels", "-o", "without")
    assert generated("without") == ["a.py", "test_a.py"]
    Path("pyproject.toml").write_text(TABLE + "kernels = false\n")
    Path("specs/a.yaml").write_text("op: a\ntensors: {x: }\noutputs: {y: x * sigmoid(x)}\noptions: {kernels: all}\n")
    run("gen", "specs/a.yaml", "-o", "off")
    assert generated("off") == ["a.py", "test_a.py"]


def test_what_the_table_excludes_is_passed_over_below_a_folder_and_taken_where_it_is_named():
    project()
    write("specs/drafts/b.yaml")
    Path("pyproject.toml").write_text(TABLE + 'exclude = ["specs/drafts", "specs/a.yaml"]\n')
    run("gen")
    assert generated("mypkg/ops") == ["extra.py"]
    run("gen", "specs/drafts", "specs/a.yaml", "-o", "elsewhere")
    assert generated("elsewhere") == ["a.py", "b.py", "test_a.py", "test_b.py"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("specz = 'specs'", "pyproject.toml: [tool.symgrad]: unknown key 'specz'; did you mean 'specs'?"),
        ("colour = 1", "unknown key 'colour'; the keys are specs, exclude, out, tests, kernels"),
        ("specs = [1]", 'specs must be a path, or a list of them, such as ["specs"]'),
        ("specs = []", "specs must be a path"),
        ("out = 3", 'out must be a folder, such as "mypkg/ops"'),
        ("kernels = 1", "kernels must be true or false"),
        ("specs = [", "pyproject.toml: not TOML: "),
    ],
)
def test_mistakes_of_the_table(text, message):
    Path("pyproject.toml").write_text(f"[tool.symgrad]\n{text}\n")
    told = run("gen", write("a.yaml"))
    assert told.exit_code == 2
    assert message in told.stderr
    assert generated() == []


def test_all_mistakes_of_the_table_are_told_at_once():
    Path("pyproject.toml").write_text("[tool.symgrad]\nout = 3\ntests = 4\n")
    with pytest.raises(SymgradError, match=r"(?s)out must be.*tests must be"):
        read_config()


def test_no_table_and_no_argument():
    told = run("gen")
    assert told.exit_code == 2
    assert "Missing argument 'SPEC...': name specs or folders of specs, or say in pyproject.toml: " in told.stderr
    Path("pyproject.toml").write_text("[tool.symgrad]\nout = 'a'\n")
    assert run("check").exit_code == 2


def test_explain_takes_the_specs_of_the_table():
    project()
    told = run("explain")
    assert told.exit_code == 0
    assert told.stdout.count("= 2*x") == 2, SPEC
