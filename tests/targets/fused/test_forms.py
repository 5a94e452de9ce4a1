"""The forms that fused passes compute are worth what the chosen forms are."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import pytest

from symgrad.accuracy.evaluate import FLOAT32, exact
from symgrad.accuracy.machine import machine_form
from symgrad.compiler.compile import compile_operation
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import make, symbol
from symgrad.ir.traversal import topological
from symgrad.parse import parse_formulas
from symgrad.spec import parse_spec
from symgrad.targets.fused.assembly import Assembly
from symgrad.targets.fused.forms import rational_forms, with_equal_arguments, with_reciprocals, with_row_values
from symgrad.targets.torch.layout import Layout
from tests.accuracy.test_simulate import simulate

X, Y = symbol("x"), symbol("y")
SOFT = make("softplus", X)


def count(op, *roots):
    return sum(n.op == op for n in topological(*roots))


def value(form, x, y=0.5):
    (found,) = exact([form], {X: x, Y: y}, 100)
    return found


@pytest.mark.parametrize(
    "form",
    [
        make("sigmoid", X),
        make("sigmoid", -X),
        make("sigmoid", X) * make("sigmoid", -X) ** 2,
        make("tanh", SOFT),
        make("sigmoid", 2 * SOFT),
        make("sigmoid", -2 * SOFT),
        X * make("sigmoid", X) * make("sigmoid", 2 * SOFT) * make("sigmoid", -2 * SOFT) + make("tanh", SOFT),
        make("sigmoid", X * Y) / make("sigmoid", Y),
        make("sigmoid", X) ** -1,
    ],
    ids=str,
)
@pytest.mark.parametrize("x", [-30.0, -1.25, -0.0, 0.0, 0.75, 12.0, 300.0])
def test_the_form_has_the_same_value(form, x):
    (found,) = rational_forms([form])
    expected = value(form, x)
    assert abs(value(found, x) - expected) <= mp.mpf(10) ** -25 * abs(expected)
    assert count("sigmoid", found) == count("softplus", found) == 0


@pytest.mark.parametrize("mirrored", [-2, -1, 0, 1, 2])
@pytest.mark.parametrize("power", [-2, -1, 0, 1, 2])
def test_the_form_in_float32_is_a_number_where_the_sigmoids_are(power, mirrored):
    form = make("sigmoid", X) ** power * make("sigmoid", -X) ** mirrored
    (found,) = rational_forms([form])
    for x in (-120.0, -40.0, 0.5, 40.0, 120.0):
        expected = float(value(form, x))
        (result,) = simulate([machine_form(found)], {X: x}, FLOAT32)
        assert result == pytest.approx(expected, rel=1e-4, abs=1e-35) or (expected > 1e38 and result == float("inf"))


def test_a_value_and_its_derivative_share_one_exponential():
    slope = 4 * X * make("sigmoid", X) * make("sigmoid", 2 * SOFT) * make("sigmoid", -2 * SOFT) + make("tanh", SOFT)
    found = rational_forms(with_equal_arguments([X * make("tanh", SOFT), slope]))
    assert count("exp", *found) == 1
    assert count("tanh", *found) == count("log1p", *found) == 0


def test_equal_arguments_that_are_written_differently_can_become_one():
    one, other = 2 * (X**3 + X), 2 * X**3 + 2 * X
    roots = [make("sigmoid", one), make("sigmoid", -other)]
    assert count("exp", *rational_forms(roots)) == 2
    assert count("exp", *rational_forms(with_equal_arguments(roots))) == 1


@pytest.mark.parametrize("test", ["ge", "lt"])
def test_arguments_that_are_equal_in_a_dead_branch_alone_stay_two(test):
    guarded = truth.where(truth.compare(test, X, Y), 1, make("abs", X))
    log = make("log", guarded)
    roots = [make("sigmoid", 2 * log), make("sigmoid", -2 * log * Y**2), make("exp", log * X)]
    assert with_equal_arguments(roots) == roots


@pytest.mark.parametrize(
    "choose",
    [
        lambda value, other: truth.where(truth.compare("eq", X, Y), value, other),
        lambda value, other: make("minimum", X, value + 100),
        lambda value, other: make("clamp", X, -ex.OO, value + 100),
        lambda value, other: truth.where(truth.compare("gt", X, 100), value, other),
        lambda value, other: make("floor", value / 100),
    ],
)
def test_arguments_that_differ_in_a_choice_that_no_point_makes_stay_two(choose):
    """A guard of a branch that is taken where two values are equal was taken for what it guards."""
    one, other = choose(Y, X), choose(Y**2, X)
    roots = [make("exp", one), make("exp", other) * X]
    assert with_equal_arguments(roots) == roots


def test_arguments_with_equal_choices_become_one():
    one = truth.where(truth.compare("gt", X, 0), 2 * (X**3 + X), Y)
    other = truth.where(truth.compare("gt", X, 0), 2 * X**3 + 2 * X, Y)
    assert count("exp", *with_equal_arguments([make("exp", one), make("exp", other)])) == 1


def test_what_holds_a_reduction_of_a_row_is_not_measured():
    total = make("row_sum", X)
    values = [make("sigmoid", 2 * (X**3 + X)) * total, make("sigmoid", -2 * X**3 - 2 * X) * total]
    layout = Layout(compile_operation(parse_formulas(parse_spec("op: a\ntensors: {x: }\noutputs: {y: x}\n"))))
    assembled = Assembly(layout, lambda node: True, None, ())
    assert assembled.rational(values, wide=False) == rational_forms(values)


def test_other_functions_are_left_alone():
    form = make("tanh", X) * make("exp", Y)
    assert rational_forms(with_equal_arguments([form])) == [form]


def test_reciprocals_only_of_what_is_moderate():
    e = make("exp", -make("abs", X))
    found = with_reciprocals([Y / (1 + e), X / (1 + e)])
    assert count("reciprocal", *found) == 1
    large = [Y / (1 + X), X / (1 + X)]
    assert with_reciprocals(large) == large
    assert with_reciprocals([Y / (1 + e)]) == [Y / (1 + e)]


def test_what_is_rounded_to_a_level_keeps_its_quotient():
    """x * (7/s) is on the other side of many ties of x / s * 7, which the eager body computes."""
    largest = make("row_amax", make("abs", X))
    quotient = 7 * X / largest
    assert count("row_value", *with_row_values([quotient])) == 1
    soft = X / (1 + make("exp", -make("abs", X)))
    for value, rewritten in ((quotient, with_row_values), (7 * X / (largest + 1), with_reciprocals)):
        assert rewritten([value]) != [value]
        for stepped in (make("round", value), make("floor", value), truth.compare("ge", value, Fraction(1, 2))):
            assert rewritten([stepped]) == [stepped]
        assert rewritten([truth.compare("ge", value, ex.ZERO)]) != [truth.compare("ge", value, ex.ZERO)]
    assert with_reciprocals([make("round", soft), soft * Y]) == [make("round", soft), soft * Y]


def test_static_factors_stay_outside():
    beta = symbol("beta", "float")
    (found,) = rational_forms([make("sigmoid", beta) * X])
    assert found is ex.mul(make("sigmoid", beta), X)


def test_arguments_of_other_digits_are_not_equal():
    """What is computed in float64 beside what is not has no operand of the others' type."""
    x, w = (make("double", t) for t in (X, Y))
    roots = [make("tanh", Y - X), make("single", make("tanh", x - w))]
    assert with_equal_arguments(roots) == roots
    assert with_equal_arguments([make("tanh", Y - X), make("tanh", X - Y)]) != [roots[0], make("tanh", X - Y)]
