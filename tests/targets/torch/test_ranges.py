"""Values for generated tests are drawn from where the formulas are defined."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
from compiled import compiled_text

from symgrad.spec import parse_spec
from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.ranges import sampled_ranges
from symgrad.targets.torch.samples import sampled_range

INTEGERS = "op: f\ntensors: {{k: {{dtype: int, domain: '{}'}}, x: }}\noutputs: {{y: k*x}}\n"


def ranges(tensors: str, formula: str) -> Any:
    item = compiled_text(f"op: f\ntensors: {tensors}\noutputs: {{out: '{formula}'}}\n")
    return sampled_ranges(Layout(item.operation))


@pytest.mark.parametrize(
    ("formula", "right"),
    [
        ("x * exp(x)", (-3.0, 3.0)),
        ("exp(2 * exp(x))", (-0.95, 0.95)),
        ("x * log(x)", (0.25, 3.0)),
        ("log(1 - x) * log(x)", (0.05, 0.95)),
        ("sum(acos(x), dim=-1)", (-0.95, 0.95)),
        ("log(log(x)) + sum(x)", (1.25, 4.0)),
        ("sqrt(-x)", (-3.0, -0.25)),
        ("where(x > 0, sqrt(x), 0)", (-3.0, 3.0)),
        ("softmax(where(x > 0, -oo, x), dim=-1)", (-3.0, 3.0)),
    ],
)
def test_a_formula_is_defined_there(formula: str, right: tuple[float, float]) -> None:
    assert ranges("{x: }", formula) == [right]


def test_each_tensor_has_its_own() -> None:
    assert ranges("{x: , y: }", "x * log(y)") == [(-3.0, 3.0), (0.25, 3.0)]


def test_a_domain_stays() -> None:
    ((low, high),) = ranges('{x: {domain: "(0, oo)"}}', "log(x - 1)")
    assert low > 0
    assert high > 1


@pytest.mark.parametrize(
    ("tensors", "formula"),
    [
        ('{x: {domain: "(0, oo)"}}', "log(x - 3)"),
        ('{x: {domain: "(0, oo)"}, y: {domain: "(0, oo)"}}', "sqrt(x - y)"),
        ('{x: {domain: "(0, 1)"}, y: {domain: "(0, 1)"}}', "log(x - y)"),
        ('{x: {domain: "(-oo, 2)"}}', "acosh(-x)"),
    ],
)
def test_inside_a_domain_too(tensors: str, formula: str) -> None:
    spec = compiled_text(f"op: f\ntensors: {tensors}\noutputs: {{out: '{formula}'}}\n").spec
    found = ranges(tensors, formula)
    assert all(end in t.domain for t, own in zip(spec.tensors, found, strict=True) for end in own)
    scope = {"log": math.log, "sqrt": math.sqrt, "acosh": math.acosh}
    inner = [[low + 0.01 * (high - low), high - 0.01 * (high - low)] for low, high in found]
    for values in product(*inner):  # raises ValueError outside of the domain of a function
        assert math.isfinite(eval(formula, scope, dict(zip("xy", values, strict=False))))


@pytest.mark.parametrize(
    ("domain", "right"),
    [
        ("(0, oo)", (1.0, 5.0)),
        ("[0, 3)", (0.0, 3.0)),
        ("[0.5, 2.5]", (1.0, 3.0)),
        ("(-oo, 0)", (-4.0, 0.0)),
        ("(-oo, oo)", (0.0, 4.0)),
    ],
)
def test_integers_of_a_domain(domain: str, right: tuple[float, float]) -> None:
    assert sampled_range(parse_spec(INTEGERS.format(domain)).tensors[0], parse_spec(INTEGERS.format(domain))) == right


def test_a_range_of_integers_has_both_ends() -> None:
    spec = parse_spec(INTEGERS.format("[0, 9]") + "test: {ranges: {k: [1.5, 4]}}")
    assert sampled_range(spec.tensors[0], spec) == (2.0, 5.0)


def test_what_is_defined_nowhere_gets_the_usual_one() -> None:
    assert ranges("{x: }", "log(-1 - x**2)") == [(-3.0, 3.0)]


def test_integers_that_are_divided_by_are_not_0() -> None:
    assert ranges("{x: , n: {dtype: int}}", "x / n") == [(-3.0, 3.0), (1.0, 5.0)]
    assert ranges("{x: , n: {dtype: int}}", "x * n") == [(-3.0, 3.0), (0.0, 4.0)]
