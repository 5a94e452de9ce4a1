"""What the printer writes is worth what the expression means."""

from __future__ import annotations

import ast
import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest
import torch
from compiled import compiled_text
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from random_expressions import (
    ALPHA,
    BETA,
    FLAG,
    MODE,
    POINT,
    SCALARS,
    TABLE,
    TENSORS,
    N,
    X,
    Y,
    Z,
    expressions,
    inside,
    well_conditioned,
)

from symgrad.accuracy.evaluate import exact
from symgrad.accuracy.machine import machine
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import Expr, make
from symgrad.ops.functions import FUNCTIONS
from symgrad.targets.constants import constant_value
from symgrad.targets.torch.printer import Printer
from symgrad.targets.torch.runtime import _runtime, _special

NAMES = {s: s.name for s in POINT}
SETTINGS = settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)


def printed(root: Expr) -> tuple[str, dict[str, Any]]:
    """The source of a machine-level expression, and the scope it is evaluated in."""
    constants: dict[Expr, str] = {}
    text = Printer(NAMES, constants).text(machine([root])[0])
    scope: dict[str, Any] = {"torch": torch, "math": math, "F": torch.nn.functional}
    scope |= {"rt": _runtime, "_special": _special}
    scope |= {s.name: torch.tensor([v], dtype=torch.float64) if s in TENSORS else v for s, v in POINT.items()}
    scope |= {name: constant_value(node) for node, name in constants.items()}
    return text, scope


def value_of(root: Expr) -> float:
    text, scope = printed(root)
    result = eval(compile(text, "<printed>", "eval"), scope)
    if not root.is_static:
        assert isinstance(result, torch.Tensor), f"{text} is no tensor"
        assert result.dtype == (torch.bool if root.is_boolean else torch.float64), text
        assert result.shape == (1,), text
    return float(result)


def assert_right(root: Expr) -> None:
    true = well_conditioned(root)
    assume(true is not None)
    found = value_of(root)
    assert abs(mp.mpf(found) - true) <= 1e-8 * abs(true) + 1e-15, (printed(root)[0], found, float(true))


# ---------------------------------------------------------------------------------------------- whole expressions
@SETTINGS
@given(expressions(*TENSORS, ALPHA, N))
@example(truth.where(FLAG, X, ex.ONE))
@example(truth.where(truth.compare("gt", ALPHA, 1), X, ex.ZERO) * Y)
@example(-(X**2))
@example((-X) ** 2)
@example((X + Y) ** 3 / (X * Y) / (Z - X))
@example(X / (Y / Z))
@example(X - (Y - Z))
@example(ex.power(ex.num(2), X) ** ALPHA)
@example((X**2) ** ALPHA)
@example(1 - BETA - X)
@example(1 - ex.PI - X)
@example(X - ALPHA - BETA * N)
@example(make("clamp", ex.ONE, X, Z))
def test_a_tensor_expression_is_worth_what_it_means(root: Expr) -> None:
    assume(not root.is_static)
    assert_right(root)


@SETTINGS
@given(expressions(*SCALARS))
@example(truth.where(FLAG, ALPHA, BETA) * N)
@example(1 / (ALPHA * BETA) ** 2)
@example(-(ALPHA ** ex.num(2)))
@example(ALPHA ** -ex.num(3) * BETA)
@example(ex.power(ALPHA, BETA) ** N)
@example(1 / ex.power(N, BETA))
@example((1 - ALPHA) * (ALPHA - BETA) - (BETA - N))
def test_a_python_scalar_is_worth_what_it_means(root: Expr) -> None:
    assert_right(root)


@SETTINGS
@given(expressions(*TENSORS, *SCALARS), expressions(*TENSORS, *SCALARS), st.sampled_from(sorted(ex.COMPARISONS)))
def test_a_condition_holds_where_it_should(left: Expr, right: Expr, op: str) -> None:
    difference = left - right
    assume(well_conditioned(difference) is not None and not difference.is_static)
    condition = truth.compare(op, left, right)
    assume(not condition.is_static)
    assert_right(condition)


# ---------------------------------------------------------------------------------------------- every row, every place
def _around(value: Expr, base: Expr) -> dict[str, Expr]:
    """Places in which an operand binds tightly."""
    return {
        "factor": base * value,
        "divisor": base / value,
        "term": base - value,
        "negated": -value,
        "squared": value**2,
        "cubed": value**3,
        "exponent": ex.power(make("abs", base), value),
        "base": ex.power(ex.HALF + value**2, base),
        "compared": truth.where(truth.compare("lt", value, base), base, 2 * base),
        "argument": make("atan", value),
        "chosen": truth.where(FLAG, value, base) * 3,
    }


WHOLE = ex.symbol("m", "int")


@pytest.mark.parametrize(
    ("quotient", "text"),
    [
        (N / 2, "n // 2"),
        (-3 * N / 4, "-3 * n // 4"),
        ((N + 1) / WHOLE, "(n + 1) // m"),
        (N * WHOLE / (5 * (N + WHOLE)), "m * n // (5 * (m + n))"),
        (ALPHA / 2, "math.floor(alpha / 2)"),
        (N / ALPHA, "math.floor(n / alpha)"),
        (N * ex.HALF + ex.HALF, "math.floor(n / 2 + 0.5)"),
    ],
    ids=str,
)
def test_a_quotient_of_whole_numbers_that_is_rounded_down_is_as_in_python(quotient: Expr, text: str) -> None:
    names = {s: s.name for s in (N, WHOLE, ALPHA)}
    found = Printer(names, {}).text(machine([make("floor", quotient)])[0])
    assert found == text
    for n, m in [(7, 3), (-7, 3), (7, -2), (0, 5)]:
        point = {N: n, WHOLE: m, ALPHA: 0.75}
        (value,) = exact([make("floor", quotient)], point, 64)
        assert eval(found, {"math": math, "n": n, "m": m, "alpha": 0.75}) == value


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("kind", ["tensor", "scalar"])
def test_every_function_in_every_place(name: str, kind: str) -> None:
    a, b, c = (X, Y, Z) if kind == "tensor" else (ALPHA, BETA, make("cos", N))
    checked = 0
    for first in (a, a + b, -a, a * b, truth.where(truth.compare("lt", a, b), a, b)):
        if name == "polygamma":
            arguments = [ex.ONE, inside(name, first)]
        else:
            arguments = [first, b, make("abs", c) + b][: FUNCTIONS[name].required]
            if name != "clamp":
                arguments[-1] = inside(name, arguments[-1])
            if name.startswith("gammainc"):  # of two positive numbers
                arguments[0] = inside(name, arguments[0])
        value = make(name, *arguments)
        for place, root in _around(value, c).items():
            true = well_conditioned(root)
            if true is None:
                continue
            found = value_of(root)
            assert abs(mp.mpf(found) - true) <= 1e-8 * abs(true) + 1e-15, (place, printed(root)[0], found, float(true))
            checked += 1
    assert checked >= 15


@pytest.mark.parametrize("name", [n for n in TABLE if FUNCTIONS[n].required == 2 and n != "polygamma"])
@pytest.mark.parametrize("which", [0, 1])
def test_a_number_beside_a_tensor(name: str, which: int) -> None:
    for scalar in (ex.num(Fraction(3, 4)), ALPHA, truth.where(FLAG, ALPHA, ex.ONE), ex.HALF + ALPHA**2):
        arguments = [X**2 + ex.HALF, X**2 + ex.HALF]
        arguments[which] = scalar
        true = well_conditioned(make(name, *arguments))
        if true is not None:
            assert value_of(make(name, *arguments)) == pytest.approx(float(true), rel=1e-12)


@pytest.mark.parametrize("condition", [truth.compare("gt", X, Y), truth.compare("lt", X, Y)])
def test_a_choice_between_numbers_is_a_tensor(condition: Expr) -> None:
    for then, otherwise in ((ex.ONE, ex.ZERO), (ex.ZERO, ex.ONE), (ALPHA, ex.num(-2)), (BETA, ALPHA)):
        root = truth.where(condition, then, otherwise)
        assert value_of(root) == float(exact([root], POINT, 100)[0])


@pytest.mark.parametrize("pole", [make("log", ex.ZERO), make("log1p", -ex.ONE), make("atanh", ex.ONE)])
def test_a_constant_at_a_pole_is_infinite_as_it_is_of_a_tensor(pole: Expr) -> None:
    assert value_of(X * pole) == float(exact([pole], {}, 100)[0])


def test_the_argument_of_heaviside_is_detached_as_a_whole() -> None:
    root = make("heaviside", X - ALPHA, ex.ONE)
    assert value_of(root) == float(exact([root], POINT, 100)[0])


def test_clamp_with_infinite_bounds_prints_one_bound() -> None:
    for low, high, expected in ((-ex.OO, ALPHA, 0.3678794411714423), (ALPHA, ex.OO, 0.7310585786300049)):
        assert value_of(make("clamp", X, low, high)) == expected
    assert value_of(make("clamp", X, ALPHA, Z)) == 0.7310585786300049
    assert value_of(make("clamp", X, -ex.OO, Y)) == POINT[Y]
    assert value_of(make("clamp", 9 * X, -ex.OO, ex.PI)) == math.pi
    assert value_of(make("clamp", X, ex.E, ex.OO)) == math.e
    assert value_of(make("clamp", X, -ex.OO, ex.OO)) == POINT[X]


@pytest.mark.parametrize("low, high", [(Y, Z), (Y, BETA), (ex.num(-1), Z), (Y, ex.OO), (-ex.OO, Z)])
def test_clamp_of_a_number_between_tensors(low: Expr, high: Expr) -> None:
    for number_ in (ALPHA, ex.ONE, -ex.ONE):
        root = make("clamp", number_, low, high)
        assert value_of(root) == pytest.approx(float(exact([root], POINT, 100)[0]))


def test_texts_and_modes() -> None:
    root = truth.where(truth.compare("eq", MODE, ex.text("mean")), X, Y)
    assert value_of(root) == POINT[X]
    for awkward in ('a"b', "back\\slash", "new\nline", "{x}", "é"):
        text, scope = printed(truth.compare("eq", MODE, ex.text(awkward)))
        assert eval(text, scope | {"mode": awkward}) is True


# ---------------------------------------------------------------------------------------------- constants
@pytest.mark.parametrize("value", [Fraction(-3), Fraction(-1, 10), Fraction(-2, 3), Fraction(2, 3), Fraction(7)])
def test_a_rational_keeps_its_value_as_an_operand(value: Fraction) -> None:
    for root in (
        X ** ex.num(value),
        ex.power(ex.num(abs(value)), X),
        X - ex.num(value),
        X * ex.num(value),
        X / ex.num(value),
    ):
        true = well_conditioned(root)
        if true is not None:
            assert value_of(root) == pytest.approx(float(true), rel=1e-14)


@SETTINGS
@given(expressions(ex.PI, ex.E, ex.num(2)))
def test_a_constant_expression_is_correctly_rounded(root: Expr) -> None:
    true = well_conditioned(root)
    assume(true is not None and root.number is None and 1e-300 < abs(true) < 1e300)
    value = constant_value(root)
    assert value is not None
    with mp.workprec(300):
        true = exact([root], {}, 300)[0]
        neighbours = (math.nextafter(value, -math.inf), math.nextafter(value, math.inf))
        assert all(abs(value - true) <= abs(mp.mpf(n) - true) for n in neighbours)
    assert value_of(root * X) == pytest.approx(float(true) * POINT[X], rel=1e-15, abs=1e-300)


def test_named_constants_have_one_definition_each() -> None:
    constants: dict[Expr, str] = {}
    roots = [
        ex.sqrt(2 / ex.PI) * X,
        ex.sqrt(ex.num(2)) * X,
        make("log", ex.num(2)) + X,
        make("exp", ex.sqrt(ex.PI + 1)) * Y,
    ]
    many = [make("exp", make("sin", ex.num(k))) ** ex.HALF * X for k in range(2, 30)]
    printer = Printer(NAMES, constants)
    texts = [printer.text(machine([r])[0]) for r in (*roots, *many, *roots)]
    assert texts[: len(roots)] == texts[-len(roots) :]
    assert len(set(constants.values())) == len(constants)
    assert all(name.isidentifier() and name.startswith("_") and name.isupper() for name in constants.values())


# ---------------------------------------------------------------------------------------------- readability
def _parentheses(node: ast.AST) -> str:
    return ast.unparse(node).replace(" ", "")


@SETTINGS
@given(expressions(*TENSORS, *SCALARS))
def test_no_needless_parentheses_around_the_whole(root: Expr) -> None:
    assume(not root.is_static)
    text, _ = printed(root)
    tree = ast.parse(text, mode="eval")
    assert not (text.startswith("(") and text.endswith(")") and ast.unparse(tree) == text[1:-1])


def test_a_number_takes_the_shape_of_what_is_at_hand() -> None:
    """A power whose exponent may be 0 is 1 in the shape of its base, of whose tensors one has no name in backward."""
    own = compiled_text(
        """
op: f
tensors: {x: , t: }
hyperparameters:
  g: {type: float, default: 2, domain: "[0, oo)"}
outputs: {y: "tanh(abs(x - t))**g * abs(x - t)"}
"""
    ).module
    x, t = (torch.randn(4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    for g in (0.0, 2.0):
        (found,) = torch.autograd.grad(own.f(x, t, g=g).sum(), x)
        d = (x - t).abs()
        (wanted,) = torch.autograd.grad((torch.tanh(d) ** g * d).sum(), x)
        assert torch.allclose(found, wanted)


def test_padding_with_a_number_is_one_operation_in_all_methods() -> None:
    text = compiled_text("op: f\ntensors: {x: {shape: [N]}}\noutputs: {y: 'sin(pad(x, [1, 2], value=3))'}").text
    assert text.count("F.pad(x, (1, 2), value=3)") == 3
    assert "torch.where" not in text, "the border has no derivative"
