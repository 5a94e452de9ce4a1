"""SymPy's expressions as elements of the field: what each function is made of, and which identities it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, reduce
from typing import Any

from symgrad.symbolic.field import Field
from symgrad.symbolic.rational_functions import Element, Undecided

__all__ = ["SympyReader"]

_MOST_STEPS = 24  # of a function of whole numbers more or less


class SympyReader:
    """The elements of a field by the SymPy expressions that they are the values of."""

    def __init__(self, field: Field) -> None:
        self._field = field
        self._values: dict[Any, Element] = {}

    def __call__(self, expression: Any, bound: Mapping[Any, Element]) -> Element:
        """The value of an expression, where `bound` are the values of its symbols."""
        self._values.update(bound)
        return self._value(expression)

    def opened(self, e: Any) -> Any:
        """What a function is made of, where it is one; SymPy differentiates that more simply."""
        rule = _opening().get(e.func)
        found = None if rule is None else rule(*e.args)
        return e if found is None else found

    def _value(self, e: Any) -> Element:
        if e not in self._values:
            self._values[e] = self._field.reduced(self._read(e))
        return self._values[e]

    def _read(self, e: Any) -> Element:
        import sympy

        field = self._field
        if e.is_Rational:
            return field.constant(_fraction(e))
        if e.is_Float:
            raise Undecided("a decimal that is no exact number")
        if e.is_NumberSymbol:
            return field.named({"Exp1": "E", "Pi": "pi"}.get(type(e).__name__, type(e).__name__))
        if e.is_Add or e.is_Mul:
            return reduce(field.sum if e.is_Add else field.product, map(self._value, e.args))
        if isinstance(e, sympy.exp):
            return field.exp(self._value(e.args[0]))
        if e.is_Pow:
            base, exponent = e.args
            return field.power(
                self._value(base), self._value(exponent), _fraction(exponent) if exponent.is_Rational else None
            )
        if isinstance(e, sympy.log):
            return field.log(self._value(e.args[0]))
        if isinstance(e, sympy.Abs | sympy.sign):
            inner = self._value(e.args[0])
            way = field.sign(inner)
            return field.times(inner, way) if isinstance(e, sympy.Abs) else field.constant(way)
        if isinstance(e, sympy.Piecewise):
            return self._piecewise(e)
        opened = self.opened(e)
        if opened is not e:
            return self._value(opened)
        if isinstance(e, sympy.Function):
            return self._function(e)
        raise Undecided(f"{type(e).__name__} is not understood")

    def _piecewise(self, e: Any) -> Element:
        """The case that holds but at single points, where something is 0 that is not 0 everywhere."""
        import sympy

        for value, condition in e.args:
            if condition == True:  # noqa: E712 (SymPy's own true)
                return self._value(value)
            if not isinstance(condition, sympy.Eq | sympy.Ne):
                raise Undecided("a choice that is not open")
            if (self._value(condition.lhs - condition.rhs).over == 0) == isinstance(condition, sympy.Eq):
                return self._value(value)
        raise Undecided("a choice without a default")

    def _function(self, e: Any) -> Element:
        """A generator for a function by the values of its arguments."""
        import sympy

        field = self._field
        arguments = [self._value(a) for a in e.args]
        if isinstance(e, sympy.sin | sympy.cos):
            return field.turned(arguments[0])[isinstance(e, sympy.sin)]
        if isinstance(e, sympy.loggamma | sympy.polygamma):
            return self._stepped(e, arguments)
        odd = (sympy.erf, sympy.erfi, sympy.atan, sympy.asin, sympy.erfinv)
        if isinstance(e, odd) and field.is_leading_negative(arguments[0]):
            return field.negative(field.function(e.func, [field.negative(arguments[0])]))
        return field.function(e.func, arguments)

    def _stepped(self, e: Any, arguments: list[Element]) -> Element:
        """Functions of gamma(x) by those of an argument between 0 and 1 more than what varies in it."""
        import sympy

        field = self._field
        *order, argument = arguments
        base, steps = field.split(argument)
        if abs(steps) > _MOST_STEPS or (order and not e.args[0].is_Integer):
            return field.function(e.func, arguments)
        total = field.function(e.func, [*order, base])
        for k in range(min(steps, 0), max(steps, 0)):
            at = field.sum(base, field.constant(k))
            if isinstance(e, sympy.loggamma):
                term = field.log(at)
            else:
                n = int(e.args[0])
                term = field.times(field.int_power(at, -n - 1), (-1) ** n * int(sympy.factorial(n)))
            total = (field.sum if steps > 0 else field.difference)(total, term)
        return total


def _fraction(e: Any) -> Any:
    from fractions import Fraction

    return Fraction(int(e.p), int(e.q))


@cache
def _opening() -> Mapping[Any, Callable[..., Any]]:
    """What functions mean in exponentials, logarithms and one or two functions of each family; None: no other."""
    import sympy

    def recurrent(kind: Any, sign: int, turn: int, mirror: int) -> Callable[..., Any]:
        """Orders 0 and 1 for all whole ones: C(n) = sign*C(n - 2) + turn*(2*(n - 1)/x)*C(n - 1)."""

        def opened(n: Any, x: Any) -> Any:
            if not n.is_Integer or n in (0, 1) or abs(n) > _MOST_STEPS:
                return None
            if n < 0:
                return mirror**-n * kind(-n, x)
            return sign * kind(n - 2, x) + turn * 2 * (n - 1) / x * kind(n - 1, x)

        return opened

    return {
        sympy.sinh: lambda x: (sympy.exp(x) - sympy.exp(-x)) / 2,
        sympy.cosh: lambda x: (sympy.exp(x) + sympy.exp(-x)) / 2,
        sympy.tanh: lambda x: 1 - 2 / (sympy.exp(2 * x) + 1),
        sympy.coth: lambda x: 1 + 2 / (sympy.exp(2 * x) - 1),
        sympy.sech: lambda x: 2 / (sympy.exp(x) + sympy.exp(-x)),
        sympy.csch: lambda x: 2 / (sympy.exp(x) - sympy.exp(-x)),
        sympy.asinh: lambda x: sympy.log(x + sympy.sqrt(x**2 + 1)),
        sympy.acosh: lambda x: sympy.log(x + sympy.sqrt(x - 1) * sympy.sqrt(x + 1)),
        sympy.atanh: lambda x: (sympy.log(1 + x) - sympy.log(1 - x)) / 2,
        sympy.tan: lambda x: sympy.sin(x) / sympy.cos(x),
        sympy.cot: lambda x: sympy.cos(x) / sympy.sin(x),
        sympy.sec: lambda x: 1 / sympy.cos(x),
        sympy.csc: lambda x: 1 / sympy.sin(x),
        sympy.acos: lambda x: sympy.pi / 2 - sympy.asin(x),
        sympy.erfc: lambda x: 1 - sympy.erf(x),
        sympy.sinc: lambda x: sympy.sin(x) / x,
        sympy.digamma: lambda x: sympy.polygamma(0, x),
        sympy.gamma: lambda x: sympy.exp(sympy.loggamma(x)),
        sympy.besselj: recurrent(sympy.besselj, -1, 1, -1),
        sympy.bessely: recurrent(sympy.bessely, -1, 1, -1),
        sympy.besseli: recurrent(sympy.besseli, 1, -1, 1),
        sympy.besselk: recurrent(sympy.besselk, 1, 1, 1),
    }
