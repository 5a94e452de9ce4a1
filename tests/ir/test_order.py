"""Sums are added up as a spec writes them."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from compiled import compiled_text

from symgrad.accuracy.machine import machine
from symgrad.ir.expr import Expr, add, make, num, symbol
from symgrad.ir.order import begun, in_order, note, parts_of, renamed
from symgrad.ir.traversal import topological
from symgrad.parse import parse_formulas
from symgrad.spec import parse_spec

N, K, B = (symbol(n, "tensor") for n in "nkb")
TOTAL = N - K + B
ORDER = {TOTAL: (N, -K, B)}


def sub(left: Expr, right: Expr) -> Expr:
    return make("sub", left, right)


def test_a_sum_is_added_up_in_its_order_as_long_as_that_holds() -> None:
    canonical = machine([TOTAL])
    with in_order(ORDER):
        assert machine([TOTAL]) == [make("add", sub(N, K), B)]
        assert parts_of(TOTAL) == (N, -K, B) and list(begun(TOTAL)) == [N - K]
    assert machine([TOTAL]) == canonical != [make("add", sub(N, K), B)]
    assert parts_of(TOTAL) == () and list(begun(TOTAL)) == []


def test_what_stands_in_brackets_is_added_up_first() -> None:
    with in_order({TOTAL: (B, N - K)}):
        assert machine([TOTAL]) == [make("add", B, sub(N, K))]


def test_a_sum_of_a_derivative_begins_with_one_of_the_spec() -> None:
    with in_order({N - K: (N, -K)}):
        assert machine([N - K + B * K]) == [make("add", sub(N, K), make("mul", B, K))]
        assert machine([K + B * K - N]) == [make("add", sub(K, N), make("mul", B, K))]
        assert parts_of(N - 2 * K + B) == () == parts_of(K - N)
    with in_order(ORDER):  # whose first two terms are a sum, too
        assert machine([N - K + 2 * B]) == [make("add", sub(N, K), make("mul", num(2), B))]


@pytest.mark.parametrize(
    ("formula", "parts"),
    [
        ("n - k + b", 3),
        ("b + (n - k)", [2, 2]),  # and n - k itself
        ("1 - n + 1e-8", 3),
        ("1 - n + 2", 0),  # 3 - n is exact, and one operation
        ("n - k", 2),
        ("n + k - n", 0),  # which has merged
        ("n + 1e300 + k - 1", 4),
    ],
)
def test_the_parser_notes_where_the_order_matters(formula: str, parts: int | list[int]) -> None:
    program = parse_formulas(parse_spec(f"op: f\ntensors: {{n: , k: , b: }}\noutputs: {{y: exp({formula})}}\n"))
    wanted = parts if isinstance(parts, list) else [parts] if parts else []
    assert [len(p) for p in program.orders.values()] == wanted


def test_a_sum_whose_terms_are_mapped_keeps_its_order() -> None:
    orders, apart = dict(ORDER), make("boundary", B)
    renamed(orders, TOTAL, {N: N, K: K, -K: -K, B: apart}, N - K + apart)
    assert orders[N - K + apart] == (N, -K, apart)
    note(orders, N + N + K, [N, N, K])
    assert len(orders) == 2 and add(N, num(1)) not in orders


def test_boundaries_in_a_sum_leave_its_order() -> None:
    """Where a loop is unrolled they stand around what functions are of, and a sum with them is another node."""
    rounds = "rounds: {repeat: 3, let: {a: tanh(sin(a*k) - cos(a*b) + b)}}"
    text = f"op: f\ntensors: {{n: , k: , b: }}\nlet:\n  a: n\n  {rounds}\noutputs: {{y: a - k + b}}\n"
    program = parse_formulas(parse_spec(text))
    sums = [n for n in topological(*program.outputs.values()) if n.op == "add"]
    assert len(sums) == 4 and all(n in program.orders for n in sums)


@pytest.mark.parametrize(
    ("number", "parts"),
    [
        ("1.00000001", ("1", "1e-8")),
        ("-2.0001", ("-2", "-1e-4")),
        ("0.1", ()),
        ("3.14159265", ()),
        ("1.5", ()),
        ("-0.24999999999999997", ()),
    ],
)
def test_a_number_that_was_two_is_added_in_two(number: str, parts: tuple[str, ...]) -> None:
    """SymPy adds numbers up before it hands an expression over."""
    found = parts_of(N + num(Fraction(number)))
    assert [p.number for p in found if p is not N] == [Fraction(p) for p in parts]
    assert not found or found[1] is N


POINTS = {
    "log(1 - p + 1e-8)": {"p": 1.0},
    "1/(1 - p**2 + 1e-6)": {"p": 1.0},
    "log(1 - p + q)": {"p": 1.0, "q": 1e-6},
    "log(1 - p**2 + 1e-6)": {"p": 1.0},
    "-q*log(p + 1e-8) - (1 - q)*log(1 - p + 1e-8)": {"p": 1.0, "q": 0.0},
    "log(p - q + r)": {"p": 5.0, "q": 5.0, "r": 1e-8},
    "sqrt(p - q + r**2)": {"p": 5.0, "q": 5.0, "r": 1e-4},
    "(p - q) - r": {"p": -1000.25, "q": -1000.25, "r": 1.3e-5},
}


@pytest.mark.parametrize("formula", POINTS)
def test_what_is_left_of_a_sum_where_its_first_terms_cancel_is_right(formula: str) -> None:
    point = POINTS[formula]
    item = compiled_text(f"op: f\ntensors: {{{', '.join(f'{n}: ' for n in point)}}}\noutputs: {{y: '{formula}'}}\n")
    names = {"log": torch.log, "sqrt": torch.sqrt}
    found = []
    for dtype in (torch.float32, torch.float64):
        tensors = {n: torch.tensor(v).to(dtype).requires_grad_() for n, v in point.items()}
        y = item.function(*tensors.values()) if dtype == torch.float32 else eval(formula, names, tensors)
        found.append([y, *torch.autograd.grad(y, tuple(tensors.values()))])
    for own, right in zip(*found, strict=True):
        assert math.isclose(own.item(), right.item(), rel_tol=3e-6)
