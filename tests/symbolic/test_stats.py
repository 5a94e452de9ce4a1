"""Log-densities of `sympy.stats` are those of its own densities, inside of the support and outside."""

from __future__ import annotations

import math
from typing import Any

import pytest
import sympy as sp
import sympy.stats as st
import torch

import symgrad
from symgrad.accuracy.evaluate import exact
from symgrad.parse import parse_formulas

A, B = sp.symbols("a b", positive=True)
M = sp.Symbol("m", real=True)


def value(variable: Any, at: float, **parameters: float) -> float:
    """The formula of the operation at a point."""
    program = parse_formulas(symgrad.log_prob("density", variable).spec)
    given = {"x": at, **parameters}
    point = {program.symbols[t.name]: given[t.name] for t in program.spec.tensors}
    return float(exact([program.outputs["log_p"]], point, 64)[0])


@pytest.mark.parametrize(
    ("variable", "at", "parameters"),
    [
        (st.Binomial("X", 5, B), 3, {"b": 0.25}),
        (st.Hypergeometric("X", 10, 4, 3), 2, {}),
        (st.NegativeBinomial("X", A, B), 2, {"a": 1.5, "b": 0.3}),
        (st.Poisson("X", A), 3, {"a": 2.5}),
        (st.Logarithmic("X", B), 2, {"b": 0.3}),  # two factors are negative
        (st.QuadraticU("X", A, A + B), 1.5, {"a": 1.0, "b": 2.0}),  # the square of a negative difference
        (st.Frechet("X", A, B, M), 2.0, {"a": 1.5, "b": 2.0, "m": -1.0}),
    ],
    ids=lambda v: type(v.pspace.distribution).__name__ if hasattr(v, "pspace") else "",
)
def test_a_log_density_is_the_logarithm_of_the_density(variable: Any, at: float, parameters: dict[str, float]) -> None:
    exact = {s: sp.Rational(str(parameters[s.name])) for s in (A, B, M) if s.name in parameters}
    density = st.density(variable)(sp.Rational(str(at))).subs(exact)
    assert value(variable, at, **parameters) == pytest.approx(float(sp.log(density)), rel=1e-6)


@pytest.mark.parametrize(
    ("variable", "at", "parameters"),
    [
        (st.Binomial("X", 5, B), 7, {"b": 0.25}),
        (st.Geometric("X", B), 0, {"b": 0.25}),
        (st.Levy("X", M, A), 1.0, {"a": 1.5, "m": 2.0}),
        (st.Exponential("X", A), -3.0, {"a": 2.0}),
        (st.Beta("X", A, B), -0.5, {"a": 2.0, "b": 2.0}),
        (st.Poisson("X", A), -1, {"a": 2.0}),
        (st.Gamma("X", A, B), 0.0, {"a": 2.0, "b": 2.0}),  # the density is 0 there
    ],
    ids=lambda v: type(v.pspace.distribution).__name__ if hasattr(v, "pspace") else "",
)
def test_a_log_density_is_minus_infinity_outside_of_the_support(
    variable: Any, at: float, parameters: dict[str, float]
) -> None:
    assert value(variable, at, **parameters) == -math.inf


def test_the_function_of_a_log_density_is_its_formula() -> None:
    operation, other = symgrad.log_prob("density", st.Poisson("X", A)), symgrad.log_prob("density", st.Gamma("X", A, B))
    x, rate = torch.tensor([3, -1]), torch.tensor(2.5, dtype=torch.float64)
    found = operation(*({"x": x, "a": rate}[t.name] for t in operation.spec.tensors))
    assert found.tolist() == [pytest.approx(value(st.Poisson("X", A), 3, a=2.5)), -math.inf]
    at = {"x": torch.zeros(1), "a": rate, "b": rate}
    assert other(*(at[t.name] for t in other.spec.tensors)).tolist() == [-math.inf]  # the density is 0 there


def test_functions_with_long_definitions_are_words_of_the_spec() -> None:
    def line(formula: Any) -> str:
        return str(symgrad.op(formula).spec.outputs[0].formula.line)

    assert line(sp.gamma(M)) == "gamma(m)"
    assert line(sp.log(sp.beta(A, sp.S.Half))) == "lbeta(a, 1/2)"
    assert line(sp.binomial(M, B)) == "binomial(m, b)"
    n = sp.Symbol("n", integer=True, positive=True)
    assert line(A * sp.loggamma(n)) == "a * lgamma(n)"  # which SymPy turns into log(gamma(n))


@pytest.mark.parametrize(
    ("variable", "reason"),
    [
        (st.RobustSoliton("X", A, B, B), "SymPy has no density of it"),
        (st.MultivariateNormal("X", [0, 0], [[1, 0], [0, 1]]), "one of several variables"),
        (st.Normal("X", M, A) + 1, "a random symbol of sympy.stats is needed"),
        (st.Skellam("X", A, B), "besseli has the orders 0 and 1"),
        (st.Normal("X", sp.Symbol("x", real=True), A), "are both called 'x'"),
    ],
    ids=["none", "several", "sum", "order", "name"],
)
def test_what_has_no_density_here_is_refused_with_its_reason(variable: Any, reason: str) -> None:
    with pytest.raises(symgrad.SpecError, match=reason):
        symgrad.log_prob("density", variable)


def test_a_formula_too_long_for_a_spec_is_refused_by_its_length() -> None:
    x = sp.Symbol("x" * 90, real=True)
    wide = sum(sp.sin(n * x) for n in range(1, 240))
    with pytest.raises(symgrad.SpecError, match="too long; name some of its parts under 'let'"):
        symgrad.op(wide)
