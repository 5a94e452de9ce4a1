"""The corpus of operations that people really write: `specs/field`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from symgrad.parse import parse_formulas
from symgrad.spec import load_spec

ROOT = Path(__file__).parents[1]
FIELD = sorted((ROOT / "specs" / "field").rglob("*.yaml"), key=lambda path: path.stem)
NIGHTLY = [path for path in FIELD if path.parent.name == "nightly"]  # the others are generated and tested as all specs

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}


@pytest.mark.parametrize("path", FIELD, ids=lambda p: p.stem)
def test_each_names_the_function_that_it_stands_for(path: Path) -> None:
    spec = load_spec(path)
    assert spec.op == path.stem
    assert re.fullmatch(r"[\w.-]+/[\w.-]+, [\w./-]+\.py, \w+( \(.+\))?", str(spec.reference)), spec.reference


@pytest.mark.parametrize("path", FIELD, ids=lambda p: p.stem)
def test_each_can_be_written(path: Path) -> None:
    assert parse_formulas(load_spec(path)).outputs


def test_recipes_are_what_the_specs_say() -> None:
    """Each formula of the page is in the spec that it names."""
    page = (ROOT / "docs" / "how-to" / "recipes.md").read_text(encoding="utf-8")
    recipes = re.findall(r"^\| [^|]+ \| `(.+)` \| `(\w+)` \|$", page, re.MULTILINE)
    assert len(recipes) == page.count("\n| ") - 2
    texts = {path.stem: _plain(path.read_text(encoding="utf-8")) for path in FIELD}
    assert [(formula, op) for formula, op in recipes if _plain(formula) not in texts[op]] == []


def _plain(text: str) -> str:
    return re.sub(r"\s", "", text)


def test_what_is_known_of_the_originals_is_known_of_each_spec() -> None:
    facts = YAML(typ="safe").load(ROOT / "benchmarks" / "field.yaml")
    assert sorted(facts["operations"]) == [path.stem for path in FIELD]
    assert {own["category"] for own in facts["operations"].values()} == set(facts["categories"])
    kinds = {kind for own in facts["operations"].values() for kind in own.get("wrong", {})}
    assert kinds == {"value", "gradient", "second derivative", "dtype", "NaN", "mutation"}


@pytest.mark.nightly
@pytest.mark.parametrize("path", NIGHTLY, ids=lambda p: p.stem)
def test_each_passes_its_generated_test(path: Path, tmp_path: Path) -> None:
    for command in (["symgrad", "gen", str(path), "-o", "ops"], ["pytest", "ops", "-q", "-p", "no:cacheprovider"]):
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
