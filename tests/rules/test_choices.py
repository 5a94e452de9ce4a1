"""Choices brought together keep every value, also where a branch that is not taken is undefined."""

from __future__ import annotations

import mpmath as mp
import pytest

from symgrad.accuracy.evaluate import exact
from symgrad.differentiate.symbols import cotangent
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import ONE, ZERO, Expr, make, symbol
from symgrad.ir.traversal import topological
from symgrad.ir.truth import compare, where
from symgrad.rules import CHEAPER, Transformation
from symgrad.rules.choices import CHOICES

X, Y, ALPHA = symbol("x"), symbol("y"), symbol("alpha", "float")
G = cotangent("y")
LEFT, RIGHT, HERE = compare("lt", X, 0), compare("gt", X, 0), compare("eq", X, 0)


def exp(x: Expr) -> Expr:
    return make("exp", x)


# What each transformation makes of a formula.
TABLE = {
    "nested-choice": [
        (
            where(LEFT, where(compare("lt", Y, 1), X, 0), 0),
            where(truth.logical("and", LEFT, compare("lt", Y, 1)), X, 0),
        ),
        (where(HERE, Y, where(compare("lt", Y, 1), X, Y)), None),
    ],
    "choice-of-arguments": [
        (where(LEFT, 1 / (1 - X), 1 / (1 + X)), 1 / where(LEFT, 1 - X, 1 + X)),
        (where(RIGHT, ONE, exp(X)), exp(where(RIGHT, ZERO, X))),
        (where(LEFT, make("sin", X), make("cos", X)), None),
    ],
    "choice-of-factors": [
        (where(LEFT, 2 * X * Y, X**3), X * where(LEFT, 2 * Y, X**2)),
        (where(HERE, exp(X) / 2, exp(X)), exp(X) * where(HERE, ex.HALF, ONE)),
    ],
    "choice-of-unit-factor": [
        (where(RIGHT, ONE, exp(X) * Y), exp(where(RIGHT, ZERO, X)) * where(RIGHT, ONE, Y)),
    ],
    "choice-of-terms": [(where(LEFT, 1 - X, 1 + X), 1 + where(LEFT, -X, X))],
    "sum-of-choices": [(where(LEFT, X, 0) + where(LEFT, Y, 1), where(LEFT, X + Y, 1))],
    "product-of-choices": [(where(LEFT, X, 2) * where(LEFT, Y, 3), where(LEFT, X * Y, 6))],
    "choice-by-sign": [(where(HERE, X + 1, where(RIGHT, Y, X * Y)), None)],
    "tie-by-sign": [
        (where(HERE, ex.HALF, where(LEFT, ONE, ZERO)), ex.HALF * (1 + make("sign", -X))),
        (where(HERE, G / 2, where(RIGHT, G, ZERO)), G * ex.HALF * (1 + make("sign", X))),
        (where(HERE, Y / 2, where(RIGHT, Y, ZERO)), None),  # 0 * y is no number where y is infinite
        (where(HERE, G / 2, where(LEFT, ZERO, G)), None),  # as at 0, so beyond
    ],
    "choice-of-coefficients": [
        (where(compare("eq", ALPHA, 0), ZERO, ALPHA * exp(ALPHA * X)), ALPHA * exp(ALPHA * X)),
        (where(compare("lt", ALPHA, 0), ZERO, ALPHA * X), where(compare("lt", ALPHA, 0), ZERO, ALPHA) * X),
        (where(compare("eq", ALPHA, 0), ZERO, ALPHA * (X + 1) ** (ALPHA - 1)), None),  # no number at x = -1
        (where(compare("eq", ALPHA, 0), ZERO, ALPHA * exp(X)), None),
    ],
    "sum-by-sign": [
        (where(RIGHT, ONE, ZERO) + where(LEFT, X, 0), where(RIGHT, ONE, where(HERE, ZERO, X))),
    ],
}


def by_name(name: str) -> Transformation:
    (found,) = (r for r in CHOICES if r.name == name)
    return found


def test_every_transformation_is_offered_and_has_an_example() -> None:
    assert {r.name for r in CHOICES} == TABLE.keys()
    assert {r.name for r in CHOICES} <= {r.name for r in CHEAPER}


@pytest.mark.parametrize("name", TABLE)
def test_a_choice_keeps_every_value(name: str) -> None:
    for subject, expected in TABLE[name]:
        result = by_name(name).apply(subject)
        if expected is not None:
            assert result is expected
        for x in (-2.5, -1, -0.3, 0, 0.4, 1, 3):
            for y in (-1.5, 0.5, 1, 2):
                for alpha in (-1, 0, 2):
                    before, after = exact([subject, result or subject], {X: x, Y: y, G: y, ALPHA: alpha}, 200)
                    same = before == after or abs(before - after) <= abs(before) * mp.mpf(2) ** -150
                    assert same or mp.isnan(before)


@pytest.mark.parametrize("name", TABLE)
def test_a_choice_is_not_made_twice(name: str) -> None:
    """What a transformation writes is smaller in choices, or in what stands behind them: it comes to an end."""
    for subject, _ in TABLE[name]:
        node: Expr | None = subject
        for _ in range(10):
            found = [r for n in topological(node) if n.op == by_name(name).operation and (r := by_name(name).apply(n))]
            if not found:
                break
            node = found[0]
        else:
            pytest.fail("goes on for ever")
