"""Value, vjp, jvp and second derivatives of formulas, as printed for torch, against torch's autograd."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch

from symgrad.accuracy.machine import machine
from symgrad.differentiate.modes import jvp, vjp
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.traversal import substitute, topological
from symgrad.parse import parse_expression
from symgrad.parse.scope import Bound, Scope
from symgrad.targets.constants import constant_value
from symgrad.targets.torch.printer import Printer
from symgrad.targets.torch.runtime import _runtime, _special

torch.set_num_threads(1)

Shape = tuple[int, ...]


HELPERS: dict[str, Any] = {"torch": torch, "math": math, "F": torch.nn.functional, "rt": _runtime, "_special": _special}


def evaluate(root: Expr, values: Mapping[Expr, Any]) -> Any:
    """The value of an expression, as printed for torch."""
    (lowered,) = machine([root])
    names = {s: s.name for s in (*root.symbols, *values)}
    constants: dict[Expr, str] = {}
    printed = Printer(names, constants)
    *inner, _ = topological(lowered)
    readers = Counter(a for n in (*inner, lowered) for a in n.args)
    found = {**HELPERS, **{s.name: v for s, v in values.items()}}

    def value(node: Expr) -> Any:
        text = printed.text(node)
        return eval(text, {**found, **{name: constant_value(c) for c, name in constants.items()}})

    for node in inner:
        if node.args and readers[node] > 1:
            shared = value(node)
            if isinstance(shared, torch.Tensor):  # else the printer writes it as part of what reads it
                names[node] = f"value_{len(names)}"
                found[names[node]] = shared
    return value(lowered)


def build(text: str, tensors: Mapping[str, Any], numbers: Mapping[str, Any], declared: bool) -> tuple[Expr, list[Expr]]:
    """The expression of a formula; with declared shapes, every dimension has a name or its size."""
    symbols = []
    for name, t in tensors.items():
        shape = tuple(f"d{size}" if size > 1 else size for size in t.shape) if declared else None
        symbols.append(symbol(name, "tensor" if t.is_floating_point() else "int_tensor", shape))
    scalars = [symbol(name, "bool" if isinstance(v, bool) else "int") for name, v in numbers.items()]
    scope = Scope.of([*symbols, *scalars])
    for s in symbols:
        for place, dim in enumerate(reversed(s.get("shape", ())), start=1):
            if isinstance(dim, str):
                scope.names.setdefault(dim, Bound(make("count", s, dim=(-place,))))
    return parse_expression(text, scope), symbols


def equal(found: Any, expected: Any, what: str) -> None:
    """Equal to rounding; NaN equals NaN."""
    torch.testing.assert_close(found, expected, equal_nan=True, msg=lambda m: f"{what}: {m}")


def check(
    text: str,
    tensors: Mapping[str, Any],
    numbers: Mapping[str, Any] = {},
    *,
    order: int = 2,
    like: Callable[..., Any] | None = None,
    declare: tuple[bool, ...] = (False, True),
) -> None:
    """Value, vjp, jvp and second derivatives of a formula, with and without declared shapes.

    The value is that of `like`, a function of the tensors, where that is given.
    """
    for declared in declare:
        root, symbols = build(text, tensors, numbers, declared)
        values: dict[Expr, Any] = dict(zip(symbols, tensors.values(), strict=True))
        given = dict(values)
        symbols = [s for s in symbols if s["kind"] == "tensor"]
        xs = [values[s].clone().requires_grad_() for s in symbols]
        values |= dict(zip(symbols, xs, strict=True))
        values |= {s: numbers[s.name] for s in root.symbols if s.name in numbers}
        values |= {symbol(n, "bool" if isinstance(v, bool) else "int"): v for n, v in numbers.items()}
        y = evaluate(root, values)
        whole = y if like is None else like(*(values[s] for s in given))
        equal(y, whole, f"value of {text}")
        cotangent = symbol("grad", "cotangent")
        g = torch.rand_like(y).requires_grad_()
        pulled = vjp({root: cotangent}, symbols)
        found = [evaluate(pulled[s], {**values, cotangent: g}) for s in symbols]
        expected = torch.autograd.grad(whole, xs, g, create_graph=True)
        for x, a, b in zip(xs, found, expected, strict=True):
            a = a.expand(x.shape) if a.dim() < x.dim() else a
            equal(a, b, f"vjp of {text}")
        if order > 0:
            _check_jvp(text, root, symbols, values, xs, y)
        if order > 1:
            _check_second(text, symbols, pulled, values, cotangent, xs, g, expected)


def _check_jvp(text: str, root: Expr, symbols: list[Expr], values: dict[Expr, Any], xs: list[Any], y: Any) -> None:
    tangents = {s: symbol(f"tangent_{s.name}", "tangent") for s in symbols}
    pushed = [torch.rand_like(x) for x in xs]
    own = evaluate(jvp([root], tangents)[root], {**values, **dict(zip(tangents.values(), pushed, strict=True))})

    def plain(*primals: Any) -> Any:
        return evaluate(root, {**values, **dict(zip(symbols, primals, strict=True))})

    _, expected = torch.func.jvp(plain, tuple(x.detach() for x in xs), tuple(pushed))
    equal(own.expand(y.shape), expected, f"jvp {text}")


def _check_second(
    text: str, symbols: list[Expr], pulled: Any, values: Any, cotangent: Expr, xs: list[Any], g: Any, expected: Any
) -> None:
    """vjp applied to the vjp, and torch's autograd through the printed vjp."""
    stand_in = symbol("h", "cotangent")
    for s, b in zip(symbols, expected, strict=True):
        h = torch.rand_like(b)
        wanted = torch.autograd.grad(b, [*xs, g], h, allow_unused=True, retain_graph=True) if b.requires_grad else []
        first = evaluate(pulled[s], {**values, cotangent: g}).expand(b.shape)
        through = torch.autograd.grad(first, [*xs, g], h, allow_unused=True, retain_graph=True)
        # A cotangent that is differentiated is a tensor like any other.
        plain = symbol("grad", "tensor")
        again = vjp({substitute(pulled[s], {cotangent: plain}): stand_in}, [*symbols, plain])
        for k, (x, want, auto) in enumerate(zip([*xs, g], wanted, through, strict=True)):
            want = torch.zeros_like(x) if want is None else want
            auto = torch.zeros_like(x) if auto is None else auto
            equal(auto, want, f"autograd of vjp {text}")
            target = [*symbols, plain][k]
            if target in again:
                own = evaluate(again[target], {**values, plain: g, stand_in: h})
                own = own.sum_to_size(x.shape) if own.dim() > x.dim() else own.expand(x.shape)
            else:
                own = torch.zeros_like(x)
            equal(own, want, f"vjp of vjp {text}")


def rand(*shape: int) -> torch.Tensor:
    return torch.rand(shape, dtype=torch.float64) * 4 - 2
