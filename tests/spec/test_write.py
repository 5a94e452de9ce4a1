"""Every spec comes back from its canonical YAML as it was."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from symgrad.spec import Spec, load_spec, parse_spec
from symgrad.spec.write import as_yaml, yaml_text

SPECS = sorted((Path(__file__).parents[2] / "specs").glob("*.yaml"))


def meaning(value: Any) -> Any:
    """A value without the places of its parts and without the blanks of its formulas."""
    if is_dataclass(value) and not isinstance(value, type):
        skipped = {"location", "places", "scalar", "path"} | ({"text"} if isinstance(value, Spec) else set())
        return {f.name: meaning(getattr(value, f.name)) for f in fields(value) if f.name not in skipped}
    if isinstance(value, dict):
        return {key: meaning(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [meaning(item) for item in value]
    return " ".join(value.split()) if isinstance(value, str) else value


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_a_spec_comes_back_from_its_yaml(path: Path) -> None:
    spec = load_spec(path)
    again = parse_spec(as_yaml(spec))
    assert meaning(again) == meaning(spec)
    assert as_yaml(again) == as_yaml(spec)


@pytest.mark.parametrize(
    "text",
    [
        "no: such",
        "true",
        "1e-3",
        "- x",
        "a # b",
        "",
        " x",
        "*x",
        "@",
        "'",
        '"',
        "x:",
        "{",
        "null",
        "~",
        "1",
        "...",
        "x, y",
    ],
)
def test_texts_that_yaml_would_read_otherwise_stand_in_quotes(text: str) -> None:
    written = yaml_text({"op": "f", "summary": text, "tensors": {"x": {"doc": text or "-"}}, "outputs": {"y": "x"}})
    spec = parse_spec(written)
    assert spec.summary == text
    assert spec.tensors[0].doc == (text or "-")


def test_values_in_fewer_bits_stand_under_save() -> None:
    formulas = "let: {m: x > 0}\noutputs: {y: 'where(m, x**2, x)'}\n"
    text = f"op: f\ntensors: {{x: }}\n{formulas}options: {{save: {{x: int8, m: bit}}}}\n"
    written = as_yaml(parse_spec(text))
    assert "save: {x: int8, m: bit}" in written
    assert as_yaml(parse_spec(written)) == written
