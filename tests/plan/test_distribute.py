"""Cotangents go into sums where that is cheaper, and change nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from compiled import compiled_text
from random_expressions import X, Y, Z

from symgrad.ir import expr as ex
from symgrad.ir.expr import make, symbol
from symgrad.ir.traversal import topological
from symgrad.plan.distribute import distribute_cotangents

G = symbol("grad_y", "cotangent")


def test_a_cotangent_is_distributed_where_that_is_cheaper() -> None:
    gradient = ex.mul(X + Y * Z, G)

    def prefers(op: str) -> Any:
        return lambda roots: 0.0 if roots[0].op == op else 1.0

    assert distribute_cotangents([gradient], prefers("mul")) == [gradient]
    (inside,) = distribute_cotangents([gradient], prefers("add"))
    assert inside is ex.add(X * G, Y * Z * G)
    (reduced,) = distribute_cotangents(
        [make("sum_to", gradient, X)], lambda roots: 0.0 if roots[0].args[0].op == "add" else 1.0
    )
    assert reduced is make("sum_to", inside, X)
    for alone in (G, X * G, ex.mul(X + 1, Y + 1, G), make("exp", X)):
        assert distribute_cotangents([alone], lambda roots: 1.0) == [alone]


def test_what_terms_have_in_common_is_collected_where_that_is_cheaper() -> None:
    def collected(gradient: Any) -> Any:
        (found,) = distribute_cotangents([gradient], lambda roots: 0.0 if roots[0].op == "mul" else 1.0)
        return found

    assert collected(ex.add(X * Y * G, X * Z)) is X * (Y * G + Z)
    assert collected(ex.add(X**2 * Y, X * Z)) is X * (X * Y + Z)
    assert collected(ex.add(X * Y, Z)) is ex.add(X * Y, Z)
    summed = ex.add(make("sum_to", X * Z * G, X), X * 2 * X)
    assert collected(summed) is X * (make("conform", Z * G, X) + 2 * X)
    apart = ex.add(make("sum_to", Y * Z * G, X), Y * X)
    assert collected(apart) is apart
    total = make("sum", X, dim=None, keepdim=False)
    alone = ex.add(make("sum_to", G, total), 2 * X * G)  # the cotangent has not the shape of the total
    assert collected(alone) is alone
    rows = make("sum", X, dim=(-1,), keepdim=True)
    apart = ex.add(make("sum_to", Y * Z, X), Y * make("sum_to", X * Z, rows), X * Y)
    assert collected(make("sum_to", X * Y, rows) + make("sum_to", X * Z, X)) == make("sum_to", X * Y, rows) + make(
        "sum_to", X * Z, X
    )
    assert not any(n.op == "conform" for n in topological(collected(apart)))
    assert distribute_cotangents([ex.add(X * Y, X * Z)], lambda roots: 1.0) == [ex.add(X * Y, X * Z)]


def test_terms_are_collected_by_what_some_of_them_have_in_common_step_by_step() -> None:
    """Losses of totals have them: factors of all elements beside numbers of which the sum is small."""
    a, b, c = (symbol(name, "tensor", ()) for name in "abc")

    def passes(roots: list[Any]) -> float:
        whole = [n for n in topological(*roots) if n.op in ("add", "mul") and n.tensors - {a, b, c}]
        return sum(len(n.args) - 1.0 for n in whole)

    (found,) = distribute_cotangents([X * Y * a + X * Z * b + X * Y * c + Z**2], passes)
    assert found is X * (Y * (a + c) + Z * b) + Z**2


@pytest.mark.parametrize(
    ("formula", "function"),
    [
        ("x*x + sum(x)", lambda x, s: x * x + x.sum()),
        (
            "sum(x*x, -1, keepdim=True) * s * x * sin(sum(x, -1, keepdim=True) * exp(x))",
            lambda x, s: (x * x).sum(-1, True) * s * x * torch.sin(x.sum(-1, True) * x.exp()),
        ),
        (
            "x*x + amax(x, -1, keepdim=True) * mean(x, 0, keepdim=True) - sum(x, -1, keepdim=True)*s*s*x*x",
            lambda x, s: x * x + x.amax(-1, True) * x.mean(0, True) - x.sum(-1, True) * s * s * x * x,
        ),
    ],
)
def test_sums_to_several_shapes_keep_their_factors(formula: str, function: Any) -> None:
    """What is taken out of one of them has its shape, and not that of another one."""
    item = compiled_text(f"op: f\ntensors: {{x: , s: }}\noutputs: {{y: '{formula}'}}\n")
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    s = torch.randn((), dtype=torch.float64, requires_grad=True)
    g = torch.randn(3, 4, dtype=torch.float64)
    found, right = (torch.autograd.grad(f(x, s), (x, s), g, allow_unused=True) for f in (item.function, function))
    torch.testing.assert_close(found[0], right[0])
    if right[1] is not None:
        torch.testing.assert_close(found[1], right[1])
