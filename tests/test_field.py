"""The corpus of operations that people really write: `specs/field`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from symgrad.parse import parse_formulas
from symgrad.spec import load_spec

FIELD = sorted((Path(__file__).parents[1] / "specs" / "field").glob("*.yaml"))


@pytest.mark.parametrize("path", FIELD, ids=lambda p: p.stem)
def test_each_names_the_function_that_it_stands_for(path: Path) -> None:
    spec = load_spec(path)
    assert spec.op == path.stem
    assert re.fullmatch(r"[\w.-]+/[\w.-]+, [\w./-]+\.py, \w+( \(.+\))?", str(spec.reference)), spec.reference


@pytest.mark.parametrize("path", FIELD, ids=lambda p: p.stem)
def test_each_can_be_written(path: Path) -> None:
    assert parse_formulas(load_spec(path)).outputs
