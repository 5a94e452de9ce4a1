"""What domains decide: comparisons, choices that are clamps, and functions with a kink; never the value."""

from __future__ import annotations

import math

import pytest
import torch

from symgrad.accuracy.domains import within_branches, within_domains
from symgrad.ir import expr as ex
from symgrad.ir.expr import FALSE, OO, TRUE, ZERO, Expr, make, symbol
from symgrad.ir.truth import compare, logical, where
from symgrad.spec.interval import Interval

X, Y, ALPHA, BETA, N = symbol("x"), symbol("y"), symbol("alpha", "float"), symbol("beta", "float"), symbol("n", "int")
DOMAINS = {ALPHA: Interval(0.0, math.inf, True, True), BETA: Interval(0.0, math.inf, False, True)}


@pytest.mark.parametrize("op", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_a_comparison_with_zero_reads_the_simplest_value(op: str) -> None:
    assert within_domains(compare(op, ALPHA * make("expm1", X / ALPHA), 0), DOMAINS) is compare(op, X, 0)
    kept = compare(op, BETA * make("expm1", X), 0)
    assert within_domains(kept, DOMAINS) is not compare(op, X, 0)


@pytest.mark.parametrize(
    ("choice", "clamp"),
    [
        (where(compare("gt", X, 0), 0, X), make("clamp", X, -OO, ZERO)),
        (where(compare("lt", X, 2), 2, X), make("clamp", X, ex.num(2), OO)),
        (where(compare("gt", X, 0), 0, X / ALPHA), make("clamp", X / ALPHA, -OO, ZERO)),
        (where(compare("ge", X, 0), 0, X), None),  # the gradient at 0 is that of 0
        (where(compare("lt", X, 0), X, 0), None),  # what is no number becomes 0
        (where(compare("gt", X, 0), 0, BETA * X), None),
    ],
)
def test_a_choice_that_is_a_clamp(choice: Expr, clamp: Expr | None) -> None:
    assert within_domains(choice, DOMAINS) is (clamp or choice)


def test_a_clamp_has_the_gradient_of_the_choice() -> None:
    for value in (-1.0, 0.0, 1.0, math.nan):
        x = torch.tensor(value, dtype=torch.float64, requires_grad=True)
        one, other = torch.where(x > 0, 0, x), torch.clamp(x, max=0)
        assert torch.equal(torch.nan_to_num(one), torch.nan_to_num(other))
        assert math.isnan(value) or torch.autograd.grad(one, x) == torch.autograd.grad(other, x)


@pytest.mark.parametrize(
    ("choice", "turned"),
    [
        (where(compare("le", make("abs", X), ALPHA), X, ALPHA * make("sign", X)), make("clamp", X, -ALPHA, ALPHA)),
        (
            where(compare("le", make("abs", X), 2), BETA * X, 2 * BETA * make("sign", X)),
            BETA * make("clamp", X, ex.num(-2), ex.num(2)),
        ),
        (  # no clamp: another bound
            where(compare("le", make("abs", X), ALPHA), X, BETA * make("sign", X)),
            where(compare("gt", make("abs", X), ALPHA), BETA * make("sign", X), X),
        ),
        (  # a clamp has another gradient where abs(x) is alpha
            where(compare("lt", make("abs", X), ALPHA), X / ALPHA, make("sign", X)),
            where(compare("ge", make("abs", X), ALPHA), make("sign", X), X / ALPHA),
        ),
        (where(compare("lt", X, 1), X**2, 2 * X), None),
        (where(compare("lt", make("abs", X), ALPHA), make("sign", X), X), None),
    ],
)
def test_what_is_no_number_passes_a_choice_by_size(choice: Expr, turned: Expr | None) -> None:
    assert within_domains(choice, DOMAINS) is (turned or choice)


def test_scales_leave_lengths() -> None:
    scaled = make("hypot", X / ALPHA, ex.num(3))
    assert within_domains(scaled, DOMAINS) is make("hypot", X, 3 * ALPHA) / ALPHA
    assert within_domains(scaled**-2, DOMAINS) is make("hypot", X, 3 * ALPHA) ** -2 * ALPHA**2
    kept = make("hypot", X * BETA, ex.num(3))
    assert within_domains(kept, DOMAINS) is kept


@pytest.mark.parametrize("op", ["eq", "lt", "le"])
def test_what_is_positive_is_not_0(op: str) -> None:
    for value in (ALPHA / (ALPHA + 1), make("hypot", X, ALPHA), ALPHA**X):
        assert within_domains(compare(op, value, 0), DOMAINS) is FALSE
    for value in (BETA / (ALPHA + 1), make("hypot", X, BETA), ALPHA * X):
        assert within_domains(compare(op, value, 0), DOMAINS) is not FALSE


def test_the_size_of_what_is_positive_is_itself() -> None:
    for value in (ex.PI, make("exp", X), ex.PI * ALPHA):
        assert within_domains(X + make("abs", value), DOMAINS) is X + value
    assert within_domains(make("abs", BETA), DOMAINS) is make("abs", BETA)


@pytest.mark.parametrize(
    ("comparison", "expected"),
    [
        (compare("eq", N - 1, 0), FALSE),
        (compare("lt", 1 - N, 0), TRUE),
        (compare("gt", 1 - 2 * N, 0), FALSE),
        (compare("ge", N + X, 0), None),
        (compare("eq", N - 1, 1), None),
        (compare("lt", N / 10**300, 10**300), None),  # a bound beyond every float
    ],
)
def test_a_domain_decides_about_a_shifted_variable(comparison: Expr, expected: Expr | None) -> None:
    domains = {N: Interval(2, 8, False, False)}
    assert within_domains(comparison, domains) is (expected or comparison)


def test_a_choice_that_is_a_number_in_its_branch_is_that_number() -> None:
    positive = compare("gt", X, 0)
    inner = where(positive, make("exp", X), 0)
    assert within_branches(where(positive, 0, inner / make("log", X))) is ZERO
    assert within_branches(where(positive, make("sin", X), make("cos", 2 + inner))) is where(
        positive, make("sin", X), make("cos", ex.num(2))
    )
    kept = where(positive, 0, make("log", where(positive, 1, X)))  # an argument that is guarded
    assert within_branches(kept) is kept
    other = where(compare("gt", X, 1), 0, inner)
    assert within_branches(other) is other


def test_a_choice_by_a_tensor_does_not_become_one_by_a_number() -> None:
    flag = symbol("flag", "bool")
    choice = where(logical("and", compare("ge", ALPHA * 2, 0), compare("gt", X, 0), flag), X, ALPHA)
    domains = {**DOMAINS, X: Interval(0.0, math.inf, True, True)}
    assert not within_domains(choice, domains).args[0].is_static
    assert within_domains(where(compare("gt", X, 0), Y, ALPHA), domains) is Y
