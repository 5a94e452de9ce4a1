"""What torch's autograd keeps and does for the formulas as written."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from random_expressions import TABLE, X, Y, Z

from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import make, symbol
from symgrad.ir.traversal import substitute
from symgrad.ops.functions import BY_AUTOGRAD, FUNCTIONS
from symgrad.parse import parse_expression
from symgrad.plan.composite import _with_activations, backward_cost, composite_saves
from symgrad.targets.torch.printer import Printer
from symgrad.targets.torch.runtime import _special
from tests.plan.test_saving import saved_by_composite, stored


@pytest.mark.parametrize("name", TABLE)
def test_a_row_says_what_torch_saves(name: str) -> None:
    symbols = [ex.ONE if name == "polygamma" and i == 0 else symbol("abc"[i]) for i in range(FUNCTIONS[name].required)]
    root = make(name, *symbols)
    spelled = make(BY_AUTOGRAD[name].name, *symbols) if name in BY_AUTOGRAD else root
    named = [s for s in symbols if s.op == "sym"]
    text = Printer({s: s.name for s in named}).text(spelled)
    low, high = FUNCTIONS[name].sample
    tensors = [(torch.rand(64) * (high - low) + low).requires_grad_() for _ in named]

    def function(*values: torch.Tensor) -> torch.Tensor:
        scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, "_special": _special}
        result: torch.Tensor = eval(text, scope | {s.name: v for s, v in zip(named, values, strict=True)})
        return result

    kept, said = stored(function, tensors)[0], 64 * saved_by_composite([root])
    if (
        name in BY_AUTOGRAD
    ):  # torch has no derivative; what stands in for one keeps more than the table says, never less
        assert kept >= said
    else:
        assert kept == said


@pytest.mark.parametrize("call", ["silu", "gelu", "gelu(approximate)", "mish"])
@pytest.mark.parametrize("argument", [X, X + Y, 2 * X, X * Y], ids=str)
def test_an_activation_that_torch_has_as_one_operation_keeps_its_argument_alone(call: str, argument: ex.Expr) -> None:
    text = {"gelu(approximate)": "gelu(u, approximate='tanh')", "mish": "u * tanh(softplus(u))"}.get(call, f"{call}(u)")
    u = symbol("u")
    root = substitute(parse_expression(text, [u]), {u: argument})
    kept = composite_saves([argument]) | {argument}
    assert composite_saves([root]) == kept
    assert composite_saves([root * Z]) - {Z} > kept  # and itself, for the other factor


def test_a_product_that_is_no_activation_keeps_its_factors() -> None:
    far = X * make("tanh", make("log", 1 + make("exp", X)))
    n = symbol("n", "int")
    powers = (X**n * make("sigmoid", X) ** n, Y * make("sigmoid", ex.sqrt(X)), make("sigmoid", X) / X)
    for root in (X * make("sigmoid", X * Y), X * make("tanh", X), far, *powers):
        assert _with_activations([root]) == [root]


def test_what_is_fixed_has_no_backward() -> None:
    everything = backward_cost([make("sin", X * Y)])
    assert 0 < backward_cost([make("sin", X * Y)], frozenset({Y})) < everything
    assert backward_cost([make("sin", X * Y)], frozenset({X, Y})) == 0
    assert composite_saves([make("sin", X * Y)], frozenset({X, Y})) == frozenset()


def test_a_choice_keeps_its_condition() -> None:
    condition = truth.compare("gt", X, 0)
    assert composite_saves([truth.where(condition, Y, Z)]) == {condition}
    assert composite_saves([truth.where(condition, ex.ONE, ex.ZERO)]) == frozenset()


@pytest.mark.parametrize("op", ["matmul", "conv1d", "einsum"])
@pytest.mark.parametrize("wanted", [(0,), (1,), (0, 1)], ids=["left", "right", "both"])
def test_what_torch_keeps_of_a_product(op: str, wanted: tuple[int, ...]) -> None:
    """An operand of a matrix product only for the gradient of the other one; those of a convolution always."""
    size = {"conv1d": (3, 3, 3), "matmul": (3, 4), "einsum": (3, 4)}[op]
    names = [symbol("a", "tensor", size), symbol("b", "tensor", (*size[:-2], *size[:-3:-1]))]
    root = make(op, *names, **({"equation": "ij,jk->ik"} if op == "einsum" else {}))
    operands = [torch.randn(s["shape"], requires_grad=k in wanted) for k, s in enumerate(names)]
    kept: set[int] = set()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.add(t.data_ptr()), lambda t: t):
        {"matmul": torch.matmul, "conv1d": torch.conv1d, "einsum": torch.einsum}[op](
            *(["ij,jk->ik"] if op == "einsum" else []), *operands
        )
    found = composite_saves([root], frozenset(s for k, s in enumerate(names) if k not in wanted))
    assert {operands[names.index(s)].data_ptr() for s in found} == kept
