"""Densities of the distributions of `sympy.stats`, as the formulas of their logarithms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from symgrad.errors import Location, Mistake, SpecError
from symgrad.symbolic.respell import SYMPY_FAULTS

__all__ = ["log_density"]


def log_density(variable: Any, x: Any = None, hyperparameters: Iterable[Any] = ()) -> tuple[list[Any], Any]:
    """The arguments, and the logarithm of the density of a random symbol, -oo outside of the support.

    Arguments are the symbol of the value (by default `x`, a real one, of whole numbers where the support is discrete)
    and those of the parameters, in the order of the distribution's. Raises SpecError for what is no random symbol, or
    has no density in closed form.
    """
    from sympy.stats import density
    from sympy.stats.rv import RandomSymbol, SinglePSpace

    if not isinstance(variable, RandomSymbol):
        raise _fault("a random symbol of sympy.stats is needed, such as Normal('X', mu, sigma)")
    space = variable.pspace
    if not isinstance(space, SinglePSpace):
        raise _fault("the density is one of several variables; write its formula with Indexed or MatrixSymbol")
    try:
        distribution = space.distribution
        support = None if space.is_Finite else distribution.set
        x = _value(discrete=not space.is_Continuous) if x is None else x
        _refuse_one_name(x, distribution.args)
        inside = _inside(support, x)
        found = _chosen(density(variable)(inside))
    except SYMPY_FAULTS as error:
        raise _fault(f"SymPy has no density of it: {str(error) or type(error).__name__}") from None
    named = {str(item) for item in hyperparameters}
    parameters = [s for a in distribution.args for s in sorted(a.free_symbols, key=str) if str(s) not in named]
    return list(dict.fromkeys([x, *parameters])), _within(support, x, found, inside)


def _refuse_one_name(x: Any, parameters: Iterable[Any]) -> None:
    """Refuse a value with the name of a parameter, which would be one symbol with it."""
    shared = {str(s) for s in x.free_symbols} & {str(s) for a in parameters for s in a.free_symbols}
    for name in sorted(shared):
        advice = "give another symbol for the value, as in log_prob(name, X, sympy.Symbol('value', real=True))"
        raise _fault(f"the value and a parameter of the distribution are both called {name!r}; {advice}")


def _value(*, discrete: bool) -> Any:
    import sympy

    return sympy.Symbol("x", integer=True) if discrete else sympy.Symbol("x", real=True)


def _inside(support: Any, x: Any) -> Any:
    """A symbol in place of that of the value, with the sign that the support has.

    The support None is that of a finite distribution, whose density knows of it.
    """
    import sympy

    if support is None or not support.inf.is_nonnegative or not x.is_Symbol:
        return x
    return sympy.Dummy(x.name, integer=True, nonnegative=True) if x.is_integer else sympy.Dummy(x.name, positive=True)


def _within(support: Any, x: Any, density: Any, inside_symbol: Any) -> Any:
    """The logarithm inside of the support, where SymPy's density does not know of it itself."""
    import sympy

    if support is None or isinstance(density, sympy.Piecewise):
        return _logarithm(density).xreplace({inside_symbol: x})
    low, high = support.inf, support.sup
    if isinstance(support, sympy.Interval):
        inside = [support.as_relational(x)]
    else:
        inside = [x >= low, *([x <= high] if high.is_finite else [])] if low.is_finite else []
    condition = sympy.And(*inside)
    found = _logarithm(density).xreplace({inside_symbol: x})
    return found if condition == True else sympy.Piecewise((found, condition), (-sympy.oo, True))  # noqa: E712


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
    factors = [_positive(*factor.as_base_exp()) for factor in sympy.Mul.make_args(sympy.powsimp(density, force=False))]
    if sum(negative for _, _, negative in factors) % 2:  # another factor is negative, too, as the density is positive
        other = next((k for k, (base, power, _) in enumerate(factors) if _may_be_negative(base, power)), None)
        if other is None:
            factors.append((sympy.S.NegativeOne, sympy.S.One, False))
        else:
            factors[other] = (-factors[other][0], *factors[other][1:])
    return sympy.Add(*(_log_of_power(base, power) for base, power, _ in factors))


def _positive(base: Any, power: Any) -> tuple[Any, Any, bool]:
    """A factor as a power of something positive, as far as is known, and whether it is the negative of that."""
    import sympy

    if isinstance(base, sympy.exp | sympy.core.numbers.Exp1):
        return base, power, False
    if power.is_even and not base.is_nonnegative:
        return sympy.Abs(base), power, False
    if power.is_odd and base.is_negative:
        return -base, power, True
    return base, power, False


def _may_be_negative(base: Any, power: Any) -> bool:
    return bool(power.is_odd) and not base.is_nonnegative


def _log_of_power(base: Any, power: Any) -> Any:
    import sympy

    if base == sympy.E:
        return power
    if isinstance(base, sympy.gamma) and base.args[0].is_positive:
        return power * sympy.loggamma(base.args[0])
    if isinstance(base, sympy.beta) and all(a.is_positive for a in base.args):
        a, b = base.args
        return power * (sympy.loggamma(a) + sympy.loggamma(b) - sympy.loggamma(a + b))
    return power * sympy.log(base)


def _fault(message: str) -> SpecError:
    return SpecError([Mistake("<log_prob>", Location(1, 1), "", message)])
