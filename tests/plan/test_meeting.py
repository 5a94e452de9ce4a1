"""Cotangents that meet are added up where that is right, and gradients are what they were."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from compiled import compiled_text

from symgrad.accuracy.machine import machine
from symgrad.analysis.sizes import Sizes
from symgrad.differentiate.modes import vjp
from symgrad.differentiate.symbols import cotangent
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.traversal import topological
from symgrad.plan.meeting import Accumulated, accumulated
from symgrad.plan.reading import remaining_cost
from tests.plan.test_fusion import evaluate

X, W = symbol("x", "tensor", ("B", "D")), symbol("w", "tensor", ("B", "D"))


def softmax(x: Expr) -> Expr:
    return make("softmax", x, dim=-1)


def total(x: Expr, *, keepdim: bool = False) -> Expr:
    return make("sum", x, dim=-1, keepdim=keepdim)


def met(*outputs: Expr) -> tuple[dict[tuple[str, str], Expr], Accumulated]:
    """The gradients of outputs one by one, and added up where their cotangents meet."""
    found: dict[tuple[str, str], Expr] = {}
    for k, output in enumerate(outputs):
        for own, gradient in vjp({output: cotangent(f"y{k}", output)}, [X, W]).items():
            found[f"y{k}", own.name] = gradient
    values = {cotangent(f"y{k}", output): output for k, output in enumerate(outputs)}
    sizes = Sizes.of(outputs)
    return found, accumulated(found, values, lambda forms: remaining_cost(forms, frozenset(), sizes))


H = softmax(make("cumsum", softmax(X * W), dim=-1))
CASES = {
    "values of one chain": (2 * softmax(softmax(H)), 3 * H, softmax(H)),
    "of another shape": (softmax(H), total(H * X, keepdim=True)),
    "reduced": (H * W, total(H)),
    "with numbers of either sign": (1 - H, softmax(-H), H / 3),
    "through a product of matrices": (make("matmul", H, make("mT", W)), softmax(H)),
    "through products with different matrices": (
        softmax(make("matmul", H, make("mT", softmax(W)))),
        softmax(make("matmul", H, make("mT", softmax(X)))),
        softmax(H),
    ),
    "which meet twice": (softmax(H) + softmax(softmax(X)), H * softmax(X)),
}


@pytest.mark.parametrize("outputs", CASES.values(), ids=CASES)
def test_gradients_are_what_they_were(outputs: tuple[Expr, ...]) -> None:
    apart, together = met(*outputs)
    read = frozenset[Expr]().union(*(form.symbols for form in together.forms))
    assert together.meetings and all(m.symbol in read for m in together.meetings)
    generator = torch.Generator().manual_seed(3)
    values: dict[Expr, Any] = {s: torch.randn(4, 5, generator=generator, dtype=torch.float64) for s in (X, W)}
    forward = evaluate(machine(outputs), values)
    for k, (output, value) in enumerate(zip(outputs, forward, strict=True)):
        given = torch.randn(value.shape, generator=generator, dtype=torch.float64)
        values |= {cotangent(f"y{k}"): given, cotangent(f"y{k}", output): given}
    for tensor in ("x", "w"):
        whole = ex.add(*(g for (_, t), g in apart.items() if t == tensor))
        expected, found = evaluate(machine([whole, together.total(tensor)]), values)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_a_chain_of_outputs_is_walked_once() -> None:
    """One operation more for an output, and not one more for each value before it."""

    def operations(length: int) -> int:
        value, outputs = X, []
        for _ in range(length):
            value = softmax(value)
            outputs.append(2 * value)
        _, together = met(*outputs)
        assert [name for name, _ in together.of("x")] == [together.meetings[-1].symbol.name]
        assert together.sources(together.meetings[-1].symbol.name) == {f"grad_y{k}" for k in range(length)}
        return sum(n.is_differential for n in topological(*together.forms))

    assert operations(12) - operations(8) == operations(8) - operations(4)


@pytest.mark.parametrize(
    "outputs",
    [
        (softmax(X), X * W),  # nothing in common
        (X * W, X + W),  # too little to be worth a sum
        (softmax(H),),
    ],
)
def test_others_stay_apart(outputs: tuple[Expr, ...]) -> None:
    apart, together = met(*outputs)
    assert not together.meetings
    assert together.gradients == {(f"grad_{o}", t): g for (o, t), g in apart.items()}


def each_product(forms: Any) -> float:
    """An estimate for which sharing products is worth it."""
    return 2.0 * sum(n.op == "mul" for n in topological(*forms))


@pytest.mark.parametrize("factor", [ex.ONE, total(make("exp", X), keepdim=True)], ids=["alone", "times a column"])
def test_what_is_summed_over_its_own_dimension_is_not_added_to_what_has_another_size(factor: Expr) -> None:
    """The sum of a column is not that of what it broadcasts to."""
    own = {cotangent("y0"): X, cotangent("y1"): total(X, keepdim=True)}
    apart = {(c.name.removeprefix("grad_"), "w"): H * W * total(factor * c, keepdim=True) for c in own}
    together = accumulated(apart, own, each_product)
    ((_, first), (_, second)) = together.meetings[0].terms
    assert {first, second} == {total(factor * c, keepdim=True) for c in own}


def test_products_with_different_matrices_are_different_maps() -> None:
    own = {cotangent("y0", X): W, cotangent("y1", X): X}
    apart = {
        (c.name.removeprefix("grad_"), "w"): make("cumsum", H * make("matmul", W * c, square(of)), dim=-1)
        for c, of in own.items()
    }
    together = accumulated(apart, dict.fromkeys(own, X), each_product)
    ((_, first), (_, second)) = together.meetings[0].terms
    assert {first, second} == {make("matmul", W * c, square(of)) for c, of in own.items()}


def square(matrix: Expr) -> Expr:
    return make("matmul", make("mT", matrix), matrix)


def test_tensors_share_their_sums() -> None:
    """The gradients of x and w read one sum, though the order of their terms differs."""
    _, together = met(2 * softmax(softmax(H)), 3 * H, softmax(H))
    assert len(together.meetings) == 2
    assert all(together.readers(m) == ["x", "w"] for m in together.meetings)


@pytest.mark.parametrize(("first", "second"), [(3, 2), (2, 3), (3, 3)])
def test_a_term_that_one_gradient_has_beside_the_other_is_not_lost(first: int, second: int) -> None:
    g, h = cotangent("y0", X), cotangent("y1", X)

    def pulled(c: Expr, terms: int) -> Expr:
        parts = [make("cumsum", H * W * c, dim=-1), make("flip", H * X * c, dims=(-1,)), make("flip", W * c, dims=(0,))]
        return make("roll", ex.add(*parts[:terms]), shifts=1, dims=-1)

    longer = ex.mul(softmax(softmax(H)), g)  # which comes first
    apart = {("y0", "w"): pulled(longer, first), ("y1", "w"): pulled(h, second)}
    together = accumulated(apart, {g: X, h: X}, each_product)
    assert len(together.meetings) == (first == second)
    values: dict[Expr, Any] = {s: torch.randn(3, 4, dtype=torch.float64) for s in (X, W, g, h)}
    found, expected = evaluate(machine([together.total("w"), ex.add(*apart.values())]), values)
    torch.testing.assert_close(found, expected)


def test_sums_have_the_names_that_are_wished() -> None:
    _, together = met(2 * softmax(softmax(H)), 3 * H, softmax(H))
    named = together.renamed([f"cotangent{k}" for k in range(len(together.meetings))])
    assert [m.symbol.name for m in named.meetings] == [f"cotangent{k}" for k in range(len(together.meetings))]
    read = frozenset[Expr]().union(*(form.symbols for form in named.forms))
    assert {s.name for s in read if s["kind"] == "cotangent"} == {
        *(m.symbol.name for m in named.meetings),
        "grad_y0",
        "grad_y1",
        "grad_y2",
    }
    assert named.readers(named.meetings[0]) == ["x", "w"]


@pytest.mark.parametrize("first", ["mean(amax(x, dim=0) + x, dim=0)", "mean(amax(x, dim=0) * w + x, dim=0)"])
def test_a_term_that_is_added_by_itself_has_the_shape_of_the_gradient(first: str) -> None:
    body = "op: f\ntensors: {x: {shape: [N, D]}, w: {shape: [D]}}\noutputs:\n"
    item = compiled_text(f'{body}  p: "{first}"\n  q: "amax(x, dim=0)**2"\n')
    x, w = (torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in ((3, 4), (4,)))
    for weights in ((1.0, 0.0), (0.0, 1.0), (1.0, 2.0)):
        results = []
        for f in (item.function, item.composite):
            taken = [w * y.sin().sum() for w, y in zip(weights, f(x, w), strict=True) if w]
            results.append(torch.autograd.grad(torch.stack(taken).sum(), (x, w), materialize_grads=True))
        torch.testing.assert_close(*results)
