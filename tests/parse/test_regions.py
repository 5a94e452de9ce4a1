"""Large pointwise formulas are divided: what is derived and searched grows with the formula, and no value changes."""

from __future__ import annotations

import random

import pytest

from symgrad.accuracy.evaluate import exact
from symgrad.accuracy.machine import machine_form
from symgrad.differentiate.modes import vjp
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.traversal import topological
from symgrad.ir.truth import compare, where
from symgrad.ops.tensors import TENSOR_OPS, is_number
from symgrad.parse import parse_formulas
from symgrad.parse.regions import Divider
from symgrad.spec import parse_spec

X, W = symbol("x"), symbol("w")


def chain(length: int) -> Expr:
    value = X
    for k in range(length):
        value = make("tanh", value * W + k)
    return value


def product(length: int) -> Expr:
    return ex.mul(*(X + k for k in range(1, length)))


def total(length: int) -> Expr:
    return ex.add(*(symbol(f"x{k}") * make("exp", -1 * symbol(f"x{k}")) for k in range(length)))


def choices(length: int) -> Expr:
    value = X
    for k in range(length):
        value = where(compare("gt", value, k), value * W, make("sin", value + k))
    return value


FORMULAS = [chain, product, total, choices]


def largest_region(root: Expr) -> int:
    """The most operations between tensor operations."""
    roots = [root, *(a for n in topological(root) if n.op in TENSOR_OPS for a in n.args)]

    def size(part: Expr) -> int:
        leaves = frozenset(n for n in topological(part) if n.op in TENSOR_OPS)
        return sum(1 for n in topological(part, leaves=leaves) if n.args and n not in leaves)

    return max(size(part) for part in roots if part.op not in TENSOR_OPS)


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_small_formula_is_one_region(formula: object) -> None:
    root = formula(5)  # type: ignore[operator]
    assert Divider()(root) is root


@pytest.mark.parametrize("formula", FORMULAS)
def test_no_region_of_a_large_formula_is_large(formula: object) -> None:
    root = Divider()(formula(150))  # type: ignore[operator]
    assert largest_region(root) <= 40


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_divided_formula_has_its_value(formula: object) -> None:
    root = formula(60)  # type: ignore[operator]
    generator = random.Random(0)
    for _ in range(5):
        point = {s: generator.uniform(0.1, 1.5) for s in root.symbols}
        whole, parts = exact([root, Divider()(root)], point, 80)
        assert float(parts) == pytest.approx(float(whole), rel=1e-14)


def test_boundaries_are_gone_from_what_is_computed() -> None:
    assert all(n.op != "boundary" for n in topological(machine_form(Divider()(chain(60)))))


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_derivative_grows_with_the_formula(formula: object) -> None:
    def size(length: int) -> int:
        root = Divider()(formula(length))  # type: ignore[operator]
        leaves = sorted(root.tensors, key=lambda s: s.name)
        return len(topological(*vjp({root: symbol("g", "cotangent")}, leaves).values()))

    assert size(320) <= 2.5 * size(160)


def test_whether_a_deep_formula_is_a_number_is_known_without_recursion() -> None:
    deep = X
    for _ in range(3000):
        deep = make("tanh", deep)
    assert not is_number(deep)
    assert is_number(make("count", deep, dim=0) * 2)


def test_a_formula_of_few_operations_and_tensors_stays_whole_though_its_naive_partials_are_many() -> None:
    """The log-logistic log-density: in parts, its power overflows before the logarithm that would take it."""
    domain = "{domain: '(0, oo)'}"
    program = parse_formulas(
        parse_spec(
            f"op: own\ntensors: {{x: {domain}, a: {domain}, b: {domain}}}\n"
            "outputs: {y: log(b/a) + (b - 1)*log(x/a) - 2*log(1 + (x/a)**b)}\n"
        )
    )
    assert all(n.op != "boundary" for n in topological(program.outputs["y"]))
