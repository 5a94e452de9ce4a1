"""Python branches split an operation; dead tensor branches are harmless."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest
import torch
from compiled import compiled_text
from hypothesis import given, settings
from hypothesis import strategies as st
from random_expressions import ALPHA, POINT, X, Y

from symgrad.accuracy.evaluate import exact
from symgrad.errors import SpecError
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.branches import Roots, Split, split
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.traversal import topological

A, B, C = (symbol(n, "bool") for n in "abc")
MODE = symbol("mode", "str")


def leaf_for(tree: Split | Roots, environment: Mapping[Expr, Any]) -> Roots:
    """The formulas at the end of the branch that a call takes."""
    while isinstance(tree, Split):
        tree = tree.then if exact([tree.condition], environment, 60)[0] else tree.otherwise
    return tree


def leaves(tree: Split | Roots) -> list[Roots]:
    return [*leaves(tree.then), *leaves(tree.otherwise)] if isinstance(tree, Split) else [tree]


def choice(draw: st.DrawFn, depth: int) -> Expr:
    """A tree of Python choices between pointwise formulas."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from([X, Y, X * Y, make("sin", X), X + 1, ALPHA * X]))
    atoms = [A, B, C, *(truth.compare("eq", MODE, ex.text(t)) for t in ("one", "two", "three"))]
    condition = draw(st.sampled_from(atoms))
    combined = draw(
        st.sampled_from(
            [
                condition,
                truth.logical("not", condition),
                *(truth.logical(o, condition, draw(st.sampled_from(atoms))) for o in ("and", "or")),
            ]
        )
    )
    node = truth.where(combined, choice(draw, depth - 1), choice(draw, depth - 1))
    return draw(st.sampled_from([node, node + X, make("exp", node)]))


@st.composite
def choices(draw: st.DrawFn) -> Expr:
    return choice(draw, 3)


@settings(deadline=None, max_examples=80)
@given(choices(), choices())
def test_every_call_reaches_the_right_formulas(first: Expr, second: Expr) -> None:
    roots = {"first": first, "second": second}
    tree = split(roots, {MODE: ("one", "two", "three")}, most=10_000)
    for a, b, c, mode in product([True, False], [True, False], [True, False], ["one", "two", "three"]):
        environment = {**POINT, A: a, B: b, C: c, MODE: mode}
        found = leaf_for(tree, environment)
        for name, root in roots.items():
            assert not any(n.op == "where" and n.args[0].is_static for n in topological(found[name]))
            assert exact([found[name]], environment, 80) == exact([root], environment, 80)


def test_the_number_of_variants_is_bounded() -> None:
    flags = [symbol(f"flag{i}", "bool") for i in range(12)]
    root: Expr = X
    for flag in flags:
        root = root + truth.where(flag, make("sin", root), X)
    tree = split({"y": root}, {})
    assert len(leaves(tree)) <= 16


def test_a_text_of_two_choices_is_decided_once() -> None:
    root = truth.where(
        truth.compare("eq", MODE, ex.text("one")), X, truth.where(truth.compare("eq", MODE, ex.text("two")), Y, X * Y)
    )
    tree = split({"y": root}, {MODE: ("one", "two")})
    assert isinstance(tree, Split)
    assert len(leaves(tree)) == 2
    assert all(leaf_for(tree, {**POINT, MODE: mode}) == {"y": root} for mode, root in (("one", X), ("two", Y)))


def test_no_choice_no_split() -> None:
    tensor_choice = {"y": truth.where(truth.compare("gt", X, 0), X, Y)}
    assert split(tensor_choice, {}) == tensor_choice
    scalar_choice = {"y": X * truth.where(A, ALPHA, ex.ONE)}
    assert split(scalar_choice, {}) == scalar_choice


def test_branches_are_python_in_the_module() -> None:
    item = compiled_text(
        "\nop: branchy\ntensors: {x: }\n"
        "hyperparameters: {flag: true, mode: {type: str, choices: [p, q, r], default: p}}\n"
        'outputs: {y: \'where(flag, where(mode == "p", sin(x), where(mode == "q", exp(x), x**2)), cos(x))\'}\n'
    )
    assert "torch.where" not in item.text
    x = torch.linspace(-1, 1, 7, dtype=torch.float64, requires_grad=True)
    expected = {(True, "p"): x.sin(), (True, "q"): x.exp(), (True, "r"): x**2, **{(False, m): x.cos() for m in "pqr"}}
    for (flag, mode), value in expected.items():
        own = item.function(x, flag, mode)
        torch.testing.assert_close(own, value)
        torch.testing.assert_close(torch.autograd.grad(own.sum(), x)[0], torch.autograd.grad(value.sum(), x)[0])
    assert math.isclose(float(item.function(torch.tensor(0.5), mode="r")), 0.25)


def test_shapes_that_contradict_each_other_in_one_branch_alone_are_a_mistake() -> None:
    formula = "(where(f, var(x, dim=-1), x) - x)**2"
    text = f"{{op: f, tensors: {{x: {{shape: [N, D]}}}}, hyperparameters: {{f: true}}, outputs: {{y: '{formula}'}}}}"
    with pytest.raises(SpecError, match=r"outputs\.y: in one of its branches the shapes \[N\] and \[N, D\] do not"):
        compiled_text(text)
