"""Densities of the distributions of `sympy.stats`, as the formulas of their logarithms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from symgrad.errors import Location, Mistake, SpecError
from symgrad.symbolic.respell import SYMPY_FAULTS

__all__ = ["log_density"]


def log_density(variable: Any, x: Any = None, hyperparameters: Iterable[Any] = ()) -> tuple[list[Any], Any]:
    """The arguments, and the logarithm of the density of a random symbol, -oo outside of the support.

    Arguments are the symbol of the value (by default `x`, positive where the support is) and those of the parameters,
    in the order of the distribution's. Raises SpecError for what is no random symbol, or has no density in closed
    form.
    """
    import sympy
    from sympy.stats import density
    from sympy.stats.rv import RandomSymbol

    if not isinstance(variable, RandomSymbol):
        raise _fault("a random symbol of sympy.stats is needed, such as Normal('X', mu, sigma)")
    distribution = variable.pspace.distribution
    support = distribution.set
    if x is None:
        positive = isinstance(support, sympy.Interval) and support.start.is_nonnegative
        x = sympy.Symbol("x", positive=True) if positive else sympy.Symbol("x", real=True)
    try:
        found = density(variable)(x)
    except SYMPY_FAULTS as error:
        raise _fault(f"SymPy has no density of it: {error}") from None
    named = {str(item) for item in hyperparameters}
    parameters = [s for a in distribution.args for s in sorted(a.free_symbols, key=str) if str(s) not in named]
    return list(dict.fromkeys([x, *parameters])), _within(support, x, _logarithm(_chosen(found)))


def _within(support: Any, x: Any, log_density: Any) -> Any:
    """The logarithm inside of the support, where SymPy's density does not know of it itself."""
    import sympy

    if isinstance(log_density, sympy.Piecewise) or not isinstance(support, sympy.Interval):
        return log_density
    return sympy.Piecewise((log_density, support.as_relational(x)), (-sympy.oo, True))


def _chosen(found: Any) -> Any:
    """The density where it is one formula or a Piecewise; one that is 0 elsewhere has that as its default."""
    import sympy

    if isinstance(found, sympy.Piecewise) and found.args[-1].cond != True:  # noqa: E712 (SymPy's own true)
        return sympy.Piecewise(*found.args, (0, True))
    return found


def _logarithm(density: Any) -> Any:
    import sympy

    if isinstance(density, sympy.Piecewise):
        return sympy.Piecewise(*((_logarithm(case.expr), case.cond) for case in density.args), evaluate=False)
    if density == 0:
        return -sympy.oo
    # Sums of logarithms, where every factor is positive anyway: powers and exponentials lose nothing and overflow less.
    terms = []
    for factor in sympy.Mul.make_args(sympy.powsimp(density, force=False)):
        terms.append(_log_of_factor(factor))
    return sympy.Add(*terms)


def _log_of_factor(factor: Any) -> Any:
    import sympy

    base, exponent = factor.as_base_exp()
    if isinstance(factor, sympy.exp):
        return factor.args[0]
    if isinstance(base, sympy.gamma) and base.args[0].is_positive:
        return exponent * sympy.loggamma(base.args[0])
    if isinstance(base, sympy.beta) and all(a.is_positive for a in base.args):
        a, b = base.args
        return exponent * (sympy.loggamma(a) + sympy.loggamma(b) - sympy.loggamma(a + b))
    return exponent * sympy.log(base) if exponent != 1 else sympy.log(factor)


def _fault(message: str) -> SpecError:
    return SpecError([Mistake("<log_prob>", Location(1, 1), "", message)])
