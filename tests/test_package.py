"""What a project that others depend on has to have, and that its parts agree."""

from __future__ import annotations

import ast
import os
import re
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import symgrad
from symgrad.cli import main

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def read(name: str):
    return YAML(typ="safe").load((ROOT / name).read_text(encoding="utf-8"))


def test_what_is_tested_is_what_is_installed():
    """The workflow says where the package has to come from: from the wheel, though the sources lie beside the tests."""
    wanted = os.environ.get("SYMGRAD_INSTALLED_IN")
    assert wanted is None or Path(symgrad.__file__).is_relative_to(Path(wanted).resolve())


def test_versions_and_licenses_agree():
    citation = read("CITATION.cff")
    assert (citation["version"], citation["license"]) == (symgrad.__version__, PROJECT["project"]["license"])
    assert f"## {symgrad.__version__}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert all((ROOT / name).is_file() for name in PROJECT["project"]["license-files"])


def test_types_are_shipped_and_metadata_needs_no_framework():
    assert (Path(symgrad.__file__).parent / "py.typed").is_file()
    names = {re.match(r"[\w.-]+", text)[0] for text in PROJECT["project"]["dependencies"]}
    assert {"sympy", "python-flint"} <= names
    assert not names & {"torch", "jax", "mlx"}


def test_everything_that_the_source_distribution_names_is_there():
    for name in PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]:
        assert (ROOT / name.removeprefix("/")).exists(), name


def imported(path: Path) -> set[str]:
    """The packages that a file imports by their full names."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add((node.module or "").partition(".")[0])
    return found


def test_what_the_package_and_its_tests_import_is_declared():
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [*PROJECT["project"]["dependencies"], *(text for texts in extras.values() for text in texts)]
    known = {re.match(r"[a-z0-9]+", text.removeprefix("python-"))[0] for text in wanted} | set(sys.stdlib_module_names)
    # Commands of benchmarks have tests, and both are in the source distribution: neither is in the wheel.
    known |= {"tests", "benchmarks", "generated", "_runtime"} | {
        path.stem for path in (ROOT / "tests" / "helpers").glob("*.py")
    }
    for folder in ("symgrad", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            if "golden" not in path.parts:
                allowed = known - {"tests", "benchmarks", "generated"} if folder == "symgrad" else known
                assert imported(path) <= allowed, f"{path.relative_to(ROOT)}: {imported(path) - allowed}"


@pytest.mark.parametrize("hook", read(".pre-commit-hooks.yaml"), ids=lambda hook: hook["id"])
def test_hooks_call_commands_that_there_are(hook):
    program, command = hook["entry"].split()
    assert program == "symgrad" and command in main.commands
    for name in ("specs/a.yaml", "mypkg/ops/a.py", "pyproject.toml"):
        assert re.search(hook["files"], name)


def test_the_action_calls_check():
    steps = read("action.yml")["runs"]["steps"]
    assert steps[-1]["run"].startswith("symgrad check ")
