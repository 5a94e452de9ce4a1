"""A plain backward overwrites its own temporaries, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from compiled import OWN_SPECS, Compiled, compiled, compiled_text
from random_expressions import ALPHA, X, Y

from symgrad.compiler.compile import compile_operation
from symgrad.differentiate.symbols import cotangent
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.truth import compare, where
from symgrad.ops.functions import FUNCTIONS
from symgrad.parse import parse_formulas
from symgrad.spec import parse_spec
from symgrad.targets.torch.overwrite import OverwritingPrinter, Room, _methods, overwritable

NAMES = {X: "x", Y: "y", ALPHA: "alpha"}
GATE = "op: gate\ntensors: {x: , beta: }\noutputs: {y: x * sigmoid(beta * x)}\n"
ROWS = """
op: rows
tensors: {x0: {shape: [K, M]}, x1: {shape: [K]}}
outputs: {y: "sum(x0, dim=1) * exp(x1)"}
"""

NLL = """
op: nll
tensors: {mean: , target: , scale: {domain: "(0, oo)"}}
outputs: {loss: "log(scale) + (target - mean)**2 / scale"}
"""

GATED = """
op: gated
tensors: {x: {shape: [N, D]}, gate: {shape: [D, H]}, up: {shape: [D, H]}}
outputs: {y: "tanh(x @ gate) * (x @ up)"}
"""

SCALED = "op: scaled\ntensors: {x: , t: }\noutputs: {y: 'sum(x, dim=-1, keepdim=True) * t'}\n"


def printed(value: Expr, dying: frozenset[Expr] = frozenset()) -> str:
    return OverwritingPrinter(NAMES, {}, {}, {}, lambda value, other: True, dying)(value)


def test_each_method_exists() -> None:
    unary = [make(name, X) for name, row in FUNCTIONS.items() if len(row.parameters) == 1]
    found = [m for node in unary for _, m in _methods(node)]
    assert len(found) > 20
    for method in found:
        (name,) = re.findall(r"\.(\w+_)\(", method)
        assert callable(getattr(torch.Tensor, name))


def test_what_is_anonymous_is_overwritten_and_what_has_a_name_is_not() -> None:
    assert printed(make("exp", X)) == "torch.exp(x)"
    assert printed(make("mul", X, Y)) == "x * y"
    assert printed(make("exp", make("mul", X, Y))) == "(x * y).exp_()"
    assert printed(make("sub", X, make("exp", Y))) == "torch.exp(y).neg_().add_(x)"
    assert printed(make("div", X, make("exp", Y))) == "x / torch.exp(y)"
    assert printed(make("exp", make("mul", X, Y)), frozenset({X})) == "x.mul_(y).exp_()"


def test_a_view_is_not_overwritten() -> None:
    viewed = make("unsqueeze", X, dim=(0,))
    assert "_(" not in printed(make("mul", viewed, Y))
    assert not overwritable([X, viewed], [X, viewed])


def test_a_value_fits_where_it_is_made_of_the_same_tensors() -> None:
    operation = compile_operation(parse_formulas(parse_spec(GATE)))
    ((_, variant),) = operation.variants()
    x, beta = (symbol(n, "tensor") for n in ("x", "beta"))
    g = cotangent("y", variant.formulas["y"])
    fits = Room(variant).fits
    assert fits(x * beta, x) and fits(x * beta, beta + x) and fits(g * x, x * beta)
    assert not fits(make("exp", beta), x * beta)  # it may be smaller
    assert not fits(make("exp", x), ex.num(2) * x)  # it may be of integers, where beta has the gradient
    assert fits(x * beta, g * x)
    chosen = where(compare("eq", symbol("n", "int"), 0), 0, x * beta)  # the number is of the shape of x alone
    assert not fits(chosen, g * x)
    assert not fits(chosen + x * beta, g * x)


def gradients(item: Compiled, tensors: list[torch.Tensor], g: torch.Tensor, *, create: bool) -> list[torch.Tensor]:
    """The gradients of the second of two backward passes, for which what was saved has to be as it was."""
    y = item.function(*tensors)
    torch.autograd.grad(y, tensors, g, retain_graph=True)
    return [t.detach() for t in torch.autograd.grad(y, tensors, g, create_graph=create)]


@pytest.mark.parametrize("text", [GATE, ROWS, NLL, GATED], ids=["gate", "rows", "nll", "gated"])
@pytest.mark.parametrize("shapes", [((3, 4), (3,)), ((1, 4), (1,))])
def test_a_plain_backward_gives_what_a_differentiated_one_does(text: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    item = compiled_text(text)
    if text is GATE:
        shapes = (shapes[0], (*shapes[0][:1], 1))
    if text is NLL:
        shapes = (shapes[0], (4,), (*shapes[0][:1], 1))
    if text is GATED:
        shapes = (shapes[0], (4, 2), (4, 2))
    tensors = [torch.rand(s, dtype=torch.float64).requires_grad_() for s in shapes]
    before = [t.detach().clone() for t in tensors]
    g = torch.rand_like(item.function(*tensors))
    kept = g.clone()
    torch.testing.assert_close(gradients(item, tensors, g, create=False), gradients(item, tensors, g, create=True))
    assert torch.equal(g, kept) and all(map(torch.equal, before, tensors))


@pytest.mark.parametrize("text", [NLL, GATED], ids=["nll", "gated"])
def test_cotangents_batched_by_autograd_are_not_overwritten_into_what_is_saved(text: str) -> None:
    item = compiled_text(text)
    assert "_is_plain(" in item.text and ".mul_(" in item.text
    assert ("_plus_product(" in item.text) == (text is GATED)
    shapes = ((3, 4), (3, 4), (3, 4)) if text is NLL else ((3, 4), (4, 2), (4, 2))
    tensors = [torch.rand(s, dtype=torch.float64).add_(0.5).requires_grad_() for s in shapes]
    y = item.function(*tensors)
    batch = torch.rand(5, *y.shape, dtype=torch.float64)
    found = torch.autograd.grad(y, tensors, batch, is_grads_batched=True, retain_graph=True)
    single = [torch.autograd.grad(y, tensors, g, retain_graph=True) for g in batch]
    torch.testing.assert_close(list(found), [torch.stack(column) for column in zip(*single, strict=True)])


def test_what_was_reduced_fits_beside_what_it_was_reduced_from() -> None:
    text = "op: total\ntensors: {x: }\nhyperparameters: {dim: 0, keepdim: false}\n"
    item = compiled_text(f"{text}outputs: {{y: 'log(sum(exp(x), dim=dim, keepdim=keepdim))'}}\n")
    assert ".exp_().mul_(_restore(grad_y" in item.text


def test_what_a_product_is_made_of_has_one_dtype() -> None:
    operation = compile_operation(parse_formulas(parse_spec(GATED)))
    ((_, variant),) = operation.variants()
    x, gate, up = (symbol(n, "tensor", s) for n, s in (("x", ("N", "D")), ("gate", ("D", "H")), ("up", ("D", "H"))))
    fits = Room(variant).fits
    first, second = make("matmul", x, gate), make("matmul", x, up)
    assert fits(make("tanh", first), first * second)
    assert not fits(make("sum", first, dim=0, keepdim=True), first)  # it is smaller


def test_products_are_not_overwritten_where_autocast_made_them() -> None:
    item = compiled_text(GATED)
    tensors = [torch.rand(s).requires_grad_() for s in ((3, 4), (4, 2), (4, 2))]
    found = []
    for function in (item.function, item.composite):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = function(*tensors)
        found.append((y, *torch.autograd.grad(y, tensors, torch.ones_like(y))))
    assert [t.dtype for t in found[0]] == [t.dtype for t in found[1]]
    torch.testing.assert_close(found[0], found[1], rtol=0.1, atol=0.1)


@pytest.mark.parametrize("shape", [(), (4, 1), (4, 3)], ids=str)
def test_a_shape_of_what_is_not_computed_is_written_where_others_are_overwritten(shape: tuple[int, ...]) -> None:
    item = compiled_text(SCALED)
    tensors = [torch.rand(s, dtype=torch.float64).requires_grad_() for s in ((4, 3), shape)]
    g = torch.rand_like(item.function(*tensors))
    torch.testing.assert_close(gradients(item, tensors, g, create=False), gradients(item, tensors, g, create=True))


@pytest.mark.parametrize("path", [p for p in OWN_SPECS if not p.stem.startswith("override")], ids=lambda p: p.stem)
def test_batched_cotangents_are_not_written_into_what_is_not_batched(path: Path) -> None:
    item = compiled(path)
    setting = next(iter(item.hyperparameters(1)))
    tensors = item.tensors(item.differentiable)
    y = item.function(*tensors, *setting)
    first = y[0] if isinstance(y, tuple) else y
    live = [t for t in tensors if t.requires_grad]
    batch = torch.rand(3, *first.shape, dtype=first.dtype)
    found = torch.autograd.grad(first, live, batch, is_grads_batched=True, allow_unused=True, retain_graph=True)
    for k in range(3):
        single = torch.autograd.grad(first, live, batch[k], allow_unused=True, retain_graph=True)
        torch.testing.assert_close([f if f is None else f[k] for f in found], list(single))
