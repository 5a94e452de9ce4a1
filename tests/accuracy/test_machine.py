"""Machine form: two-operand operations, worth what the formula is worth, in the order in which they are printed."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_expressions import ALPHA, POINT, TENSORS, X, Y, Z, expressions

from symgrad.accuracy.evaluate import FLOAT32, FLOAT64, Format, exact
from symgrad.accuracy.machine import machine, machine_form
from symgrad.accuracy.simulate import Simulation
from symgrad.ir import expr as ex
from symgrad.ir.expr import COMPARISONS, LOGICAL, Expr, make, symbol
from symgrad.ir.traversal import topological
from symgrad.ops.functions import FUNCTIONS
from symgrad.targets.torch.printer import Printer

torch.set_num_threads(1)

SETTINGS = settings(
    deadline=None, max_examples=80, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)
TWO_OPERANDS = frozenset({"add", "sub", "mul", "div", "pow"})
SMALLEST = {FLOAT32: 2.0**-126, FLOAT64: 2.0**-1022}
_ARITHMETIC = [ex.num(Fraction(*pair)) for pair in ((2, 1), (-1, 1), (-2, 1))]


def as_formula(form: Expr) -> Expr:
    """A machine form with its operations read as the ones of formulas, without any rearrangement."""
    mapped: dict[Expr, Expr] = {}
    for node in topological(form):
        args = [mapped[a] for a in node.args]
        if node.op == "sub":
            mapped[node] = make("add", args[0], make("mul", ex.MINUS_ONE, args[1]))
        elif node.op == "div":
            mapped[node] = make("mul", args[0], make("pow", args[1], ex.MINUS_ONE))
        elif node.op == "neg":
            mapped[node] = make("mul", ex.MINUS_ONE, args[0])
        else:
            mapped[node] = make(node.op, *args, **dict(node.attrs))
    return mapped[form]


@SETTINGS
@given(expressions(*TENSORS, ALPHA), expressions(*TENSORS, ALPHA))
def test_a_machine_form_is_worth_the_formula(left: Expr, right: Expr) -> None:
    for root, form in zip((left, right), machine([left, right]), strict=True):
        before, after = exact([root, as_formula(form)], POINT, 600)
        if isinstance(before, bool):
            assert after == before
        elif mp.isfinite(before):
            assert abs(after - before) <= abs(before) * mp.mpf(2) ** -300 + mp.mpf(2) ** -500


@SETTINGS
@given(expressions(*TENSORS, ALPHA))
def test_every_tensor_operation_has_as_many_operands_as_the_machine(root: Expr) -> None:
    for node in topological(machine_form(root)):
        if node.is_static or not node.args:
            continue
        if node.op in TWO_OPERANDS:
            assert len(node.args) == 2
        elif node.op == "neg":
            assert len(node.args) == 1
        else:
            assert node.op in FUNCTIONS or node.op in COMPARISONS or node.op in LOGICAL or node.op == "where"


@SETTINGS
@given(expressions(*TENSORS, ALPHA))
def test_python_scalars_are_left_whole(root: Expr) -> None:
    form = machine_form(root * ALPHA + make("exp", ALPHA + 1 + ALPHA**2))
    static = [n for n in topological(form) if n.is_static]
    assert not any(n.op in ("sub", "div", "neg") for n in static)


@SETTINGS
@given(expressions(*TENSORS), expressions(*TENSORS))
def test_what_formulas_share_stays_shared(left: Expr, right: Expr) -> None:
    shared = make("exp", left)
    first, second = machine([shared * Y, shared + right])
    (own,) = machine([shared])
    assert own in topological(first)
    assert own in topological(second)


# ---------------------------------------------------------------------------------------------- order
@st.composite
def _step(draw: st.DrawFn, operands: st.SearchStrategy[Expr]) -> Expr:
    a, b = draw(operands), draw(operands)
    kind = draw(st.sampled_from(["add", "add", "sub", "mul", "mul", "div", "neg", "pow", "scale", "abs"]))
    if kind == "scale":
        return a * draw(st.sampled_from([ALPHA, ex.num(3), ex.num(Fraction(-1, 3)), ex.num(Fraction(2, 7)), 1 / ALPHA]))
    if kind == "pow":
        return ex.power(a, draw(st.sampled_from(_ARITHMETIC)))
    if kind in ("neg", "abs"):
        return -a if kind == "neg" else make("abs", a)
    return {"add": a + b, "sub": a - b, "mul": a * b, "div": a / b if b.number != 0 else a}[kind]


def arithmetic() -> st.SearchStrategy[Expr]:
    """Sums, products and quotients, in which every operation is rounded correctly by any machine."""
    leaves = st.sampled_from([X, X, Y, Z, ALPHA, ex.ONE, ex.num(Fraction("0.1")), ex.PI])
    return st.recursive(leaves, _step, max_leaves=9)


def computed(form: Expr, points: list[dict[Expr, Any]], dtype: torch.dtype) -> list[float]:
    """What torch computes from the printed text."""
    scope: dict[str, Any] = {"torch": torch, "math": math, "alpha": POINT[ALPHA]}
    scope |= {s.name: torch.tensor([p[s] for p in points], dtype=dtype) for s in TENSORS}
    constants: dict[Expr, str] = {}
    text = Printer({s: s.name for s in (*TENSORS, ALPHA)}, constants).text(form)
    scope |= {name: float(exact([node], {}, 200)[0]) for node, name in constants.items()}
    result = eval(text, scope)
    found: list[float] = result.double().tolist()
    return found


@pytest.mark.parametrize(("target", "dtype"), [(FLOAT32, torch.float32), (FLOAT64, torch.float64)], ids=["32", "64"])
@SETTINGS
@given(arithmetic())
def test_the_printed_order_is_the_simulated_order(target: Format, dtype: torch.dtype, root: Expr) -> None:
    """To the last bit, because sums and products in another order would round differently."""
    assume(not root.is_static)
    assume(not any(n.op == "pow" and n.args[1].number not in (2, -1, -2) for n in topological(root)))
    form = machine_form(root)
    assume(all(n.is_static or n.args[1].number in (2, -1) for n in topological(form) if n.op == "pow"))
    magnitudes = (0.7310585786300049, -1.2533141373155001, 2.0943951023931957, 1e-7, 1e15, -3e-11, 0.0)
    points = [
        {X: target.round(x), Y: target.round(y), Z: target.round(1.7 - x), ALPHA: POINT[ALPHA]}
        for x in magnitudes
        for y in (-0.37, 5.5, 1e12)
    ]
    simulation = Simulation(points, target)
    values = [simulation(n) for n in topological(form) if not n.is_static]
    for i, theirs in enumerate(computed(form, points, dtype)):
        if any(0 < abs(column[i]) < SMALLEST[target] for column in values):
            continue  # a scaled square is printed in another order, which differs below the normal range
        own, point = simulation(form)[i], points[i]
        assert own == theirs or (math.isnan(own) and math.isnan(theirs)), (form, point, own, theirs)


def test_a_vanishing_factor_meets_a_large_one_early() -> None:
    sigmoid = make("sigmoid", -X)
    form = machine_form(sigmoid * X**2 * Y)
    values = Simulation([{X: 60.0, Y: 1e30}, {X: 1e25, Y: 1.0}], FLOAT32)(form)
    assert values[0] == pytest.approx(float(mp.exp(-60) * 3600 * mp.mpf("1e30")), rel=1e-5)
    assert values[1] == 0.0


def test_a_squared_divisor_divides_twice() -> None:
    (value,) = Simulation([{X: 1e25, Y: 1e30}], FLOAT32)(machine_form(Y / X**2))
    assert value == pytest.approx(1e-20, rel=1e-6, abs=0)
    (small,) = Simulation([{X: 1e-25, Y: 1e-30}], FLOAT32)(machine_form(Y / X**2))
    assert small == pytest.approx(1e20, rel=1e-6)


def test_a_squared_divisor_divides_before_a_third_factor() -> None:
    form = machine_form(make("exp", X) * Y * Z / make("hypot", Y, Z) ** 2)
    (value,) = Simulation([{X: 0.0, Y: 1e25, Z: 1e25}], FLOAT32)(form)
    assert value == pytest.approx(0.5, rel=1e-6)
    form = machine_form(ALPHA * X * Y * Z / (X + Y) ** 2)
    (value,) = Simulation([{X: 1e15, Y: 1e15, Z: 1e15, ALPHA: 3.0}], FLOAT32)(form)
    assert value == pytest.approx(0.75e15, rel=1e-6)


def test_a_growing_divisor_divides_before_a_small_one() -> None:
    form = machine_form(Y / X / make("cosh", Z) ** 2)
    (value,) = Simulation([{X: 1e-42, Y: 3.0, Z: 20.0}], FLOAT32)(form)
    assert value == pytest.approx(float(3 / mp.cosh(20) ** 2 / mp.mpf("1e-42")), rel=1e-2)


def test_a_square_over_a_divisor_divides_first() -> None:
    (value,) = Simulation([{X: 1e25, Y: 1e20}], FLOAT32)(machine_form(X**2 / Y))
    assert value == pytest.approx(1e30, rel=1e-6)


def test_a_square_stays_whole_in_polynomials_of_it() -> None:
    form = machine_form((3 * X**2 + 1) * X**2 + 2)  # (3 * x**2 + 1) * x**2 + 2
    assert [n.op for n in topological(form) if n.args] == ["pow", "mul", "add", "mul", "add"]
    (value,) = Simulation([{X: 1e30, Y: 1e-23}], FLOAT32)(machine_form((Y**2 + 1) * Y**2 * X))
    assert value == pytest.approx(1e-16, rel=1e-6, abs=0)  # where the square vanishes alone


def test_negative_terms_are_subtracted_and_dyadic_constants_multiply() -> None:
    assert [n.op for n in topological(machine_form(X - Y)) if n.args] == ["sub"]
    assert [n.op for n in topological(machine_form(X / 2)) if n.args] == ["mul"]
    assert [n.op for n in topological(machine_form(X / 3)) if n.args] == ["div"]
    assert [n.op for n in topological(machine_form(-(X * Y))) if n.args] == ["mul", "neg"]


def test_products_begin_with_what_they_have_in_common() -> None:
    a, b = make("cosh", X), make("erfinv", Y)
    first, second = machine([a * b * Z, a * b * make("lgamma", Z)])
    both = [n for n in topological(first) if n.op == "mul" and n in topological(second)]
    assert len(both) == 1


def test_what_is_small_is_divided_by_what_is_large_without_its_reciprocal() -> None:
    large, row, other = symbol("x", "tensor", ("n", "d")), *(symbol(n, "tensor", ("n", 1)) for n in "rs")
    assert machine_form(row * other / large) is make("div", make("mul", row, other), large)


def test_a_part_of_a_sum_that_a_term_reads_is_added_up_first():
    """So that what is taken away from itself leaves nothing: (x - y) - max(x - y, z)."""
    part = X - Y
    form = machine_form(part - make("maximum", part, Z))
    assert form is make("sub", make("sub", X, Y), make("maximum", make("sub", X, Y), Z))
    held = make("boundary", -make("boundary", make("maximum", part, Z)))
    assert form.op == "sub" and machine_form(part + held).args[0] is make("sub", X, Y)


def test_what_is_reduced_is_taken_from_its_own_operand_first():
    p, a, b = symbol("p", "tensor", ("N", "C")), symbol("a", "tensor", ("N", "C")), symbol("b", "tensor", ("N", "C"))
    mean = make("sum", p * (a - b), dim=-1, keepdim=True)
    total = machine_form(1 + a - b - mean)
    assert total.op == "add" and make("sub", machine_form(a - b), machine_form(mean)) in total.args
    turned = machine_form(b - a + mean + 1)
    assert make("sub", machine_form(mean), machine_form(a - b)) in turned.args
    own = make("sum", p * a, dim=-1, keepdim=True)  # of one of the terms
    assert make("sub", a, machine_form(own)) in machine_form(b + a - own).args
    assert machine_form(a - make("sum", p, dim=-1, keepdim=True) + b).args[0].op == "add"  # which reads none of them


@pytest.mark.parametrize("exponent", [Fraction(-3, 2), Fraction(-5, 2), Fraction(-3)])
def test_a_root_of_a_mean_divides_step_by_step(exponent):
    x = symbol("x", "tensor", ("N", "C"))
    total = make("mean", x**2, dim=-1, keepdim=True) + 1
    steps = machine_form(x * total**exponent)
    assert all(n.args[1].number in (Fraction(1, 2), 2) for n in topological(steps) if n.op == "pow")
    whole = machine_form(x * (x**2 + 1) ** exponent)  # of elements, whose range is measured
    assert any(n.op == "pow" and n.args[1].number == -exponent for n in topological(whole))


def test_products_of_sums_over_rows_are_divided_in_turn() -> None:
    """Of numbers as large as inputs get, sums of squares overflow in products long before their quotients do."""
    x = symbol("x", "tensor", ("N", "D"))
    n, s = (make("sum", value, dim=-1, keepdim=True) for value in (x**2, x**3))
    g = symbol("grad_y", "cotangent", ("N", 1))
    form = machine_form(s * n**2 * g / (n + 1) ** 3)
    values = {n: 1e16, s: 1e16, g: 1.0}
    largest = 0.0

    def value(node: Expr) -> float:
        nonlocal largest
        if node in values:
            return values[node]
        if node.number is not None:
            return float(node.number)
        parts = [value(a) for a in node.args]
        result = {"add": sum, "mul": math.prod, "pow": lambda p: p[0] ** p[1], "div": lambda p: p[0] / p[1]}[node.op](
            parts
        )
        largest = max(largest, result)
        return result

    assert value(form) == pytest.approx(1.0)
    assert largest < 1e38


def test_a_variance_divides_in_steps_as_a_sum_does() -> None:
    x = symbol("x", "tensor", ("N", "D"))
    spread = make("var", x, dim=-1, correction=0, keepdim=True) + 1
    assert machine_form(x / spread ** Fraction(3, 2)) is make(
        "div", make("div", x, machine_form(spread)), make("pow", machine_form(spread), ex.HALF)
    )
