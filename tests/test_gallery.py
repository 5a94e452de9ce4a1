"""The gallery shows every spec, as the command makes it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.gallery import SPECS, curves, entry, speeds
from symgrad.spec import load_spec, parse_spec

PAGE = (Path(__file__).parents[1] / "docs" / "gallery.md").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def test_every_spec_is_shown_with_formula_curves_and_figures() -> None:
    assert list(ENTRIES) == [path.stem for path in SPECS], "run: python benchmarks/gallery.py > docs/gallery.md"
    for name, text in ENTRIES.items():
        assert "<math" in text and "| bytes kept |" in text, name
        assert text.count('class="value"') == text.count('class="second"') == text.count("<svg"), name


@pytest.mark.parametrize("name", ["square", "relu"])
def test_the_page_is_what_the_command_writes(name: str) -> None:
    path = next(path for path in SPECS if path.stem == name)
    assert entry(load_spec(path), speeds()).split("\n", 1)[1].strip() == ENTRIES[name].strip()


def test_curves_are_value_first_and_second_derivative_in_the_domain() -> None:
    text = "{op: f, tensors: {x: {domain: '(0, oo)'}}, outputs: {y: x**3}}"
    ((name, (places, values, first, second)),) = curves(parse_spec(text))
    assert name == "x" and min(places) > 0
    for x, *found in zip(places, values, first, second, strict=True):
        assert found == pytest.approx([x**3, 3 * x**2, 6 * x])


def test_of_a_reduction_one_element_is_varied_and_without_a_second_derivative_there_is_no_curve() -> None:
    ((_, (places, values, first, second)),) = curves(parse_spec("{op: f, tensors: {x: }, outputs: {y: sum(x**2)}}"))
    rest = values[0] - places[0] ** 2
    assert values == pytest.approx([rest + x**2 for x in places])
    assert first == pytest.approx([2 * x for x in places]) and second == pytest.approx([2.0] * len(places))
    once = "{op: f, tensors: {x: }, outputs: {y: exp(x)}, options: {double_backward: false}}"
    assert all(h != h for h in curves(parse_spec(once))[0][1][3])
