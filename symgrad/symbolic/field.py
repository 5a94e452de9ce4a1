"""A zero test: whether a SymPy expression is 0 as an element of a rational function field.

Every part that is not rational is a generator of the field: `exp` of each monomial, `log` of each irreducible
polynomial, roots, and other functions by their arguments. Identities between generators are used where they are known:
`exp(a + b) = exp(a)*exp(b)`, the same for sines and cosines, powers through logarithms, `log` of a product, `root**n`,
`sin**2 + cos**2 = 1`. So 0 is a proof; anything else decides nothing, for two generators may be related in a way that
is not known here.

Logarithms are those of absolute values, which is right wherever both sides are real.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from math import gcd
from typing import TYPE_CHECKING, Any

import flint
import mpmath as mp

from symgrad.errors import SymgradError

if TYPE_CHECKING:
    import sympy

__all__ = ["Field", "Undecided"]

_MOST_GENERATORS = 40
_MOST_TERMS = 2_000  # of a polynomial: bounds the work
_MOST_PRODUCTS = 20_000  # of terms, in one product of polynomials
_MOST_POWER = 200
_MOST_RESTARTS = 20
_MOST_TURNS = 24  # times the smallest angle, in one sine or cosine


class Undecided(SymgradError):
    """The zero test cannot tell; the message says why."""


class _Again(Exception):
    """An exponential or a root stands to a finer power than its generator."""


class _Fraction:
    """A fraction of two polynomials over the generators."""

    __slots__ = ("over", "under")

    def __init__(self, over: Any, under: Any) -> None:
        self.over, self.under = over, under


def _rational(value: Fraction) -> Any:
    return flint.fmpq(value.numerator, value.denominator)


class Field:
    """The field over the generators that the expressions given to it need.

    `values(symbol)` are the values of a symbol at the points that decide the sign of what stands under a root or
    between bars: it must be the same at all of them.
    """

    def __init__(self, values: Callable[[sympy.Symbol], Sequence[Any]]) -> None:
        self._points = values
        self._units: dict[Any, Fraction] = {}  # by exponential or root, what share of the exponent its generator has
        self._reset()

    def _reset(self) -> None:
        names = [f"g{k}" for k in range(_MOST_GENERATORS)]
        self._context = flint.fmpq_mpoly_ctx.get(names, "lex")
        self._one = self._context.constant(1)
        self._zero = self._context.constant(0)
        self._generators: dict[Any, int] = {}
        self._keys: list[Any] = []
        self._values: dict[Any, _Fraction] = {}
        self._relations: dict[int, tuple[int, _Fraction]] = {}  # generator -> the power of it that is another value
        self._numbers: dict[int, list[Any]] = {}
        self._polynomials: dict[str, Any] = {}

    def is_zero(self, expression: sympy.Expr) -> bool:
        """Whether an expression is 0 in the field, which is a proof that it is 0.

        Raises Undecided where it is too large, or has a part that is no function of a real number.
        """
        for _ in range(_MOST_RESTARTS):
            try:
                return bool(self._value(expression).over == 0)
            except _Again:
                self._reset()
        raise Undecided("roots of too many kinds")

    # ------------------------------------------------------------------------------------------ arithmetic
    def _checked(self, polynomial: Any) -> Any:
        if len(polynomial) > _MOST_TERMS:
            raise Undecided(f"more than {_MOST_TERMS} terms")
        return polynomial

    def _make(self, over: Any, under: Any) -> _Fraction:
        common = over.gcd(under)
        if common != 1:
            over, under = over / common, under / common
        return _Fraction(self._checked(over), self._checked(under))

    def _add(self, a: _Fraction, b: _Fraction) -> _Fraction:
        if a.under == b.under:
            return self._make(a.over + b.over, a.under)
        over = self._product(a.over, b.under) + self._product(b.over, a.under)
        return self._make(over, self._product(a.under, b.under))

    def _mul(self, a: _Fraction, b: _Fraction) -> _Fraction:
        return self._make(self._product(a.over, b.over), self._product(a.under, b.under))

    def _product(self, p: Any, q: Any) -> Any:
        if len(p) * len(q) > _MOST_PRODUCTS:
            raise Undecided(f"more than {_MOST_PRODUCTS} products of terms")
        return p * q

    def _int_power(self, a: _Fraction, n: int) -> _Fraction:
        if abs(n) > _MOST_POWER:
            raise Undecided(f"a power of {n}")
        if n < 0:
            if a.over == 0:
                raise Undecided("a division by 0")
            a, n = _Fraction(a.under, a.over), -n
        if n * max(len(a.over), len(a.under)) > _MOST_POWER and max(len(a.over), len(a.under)) > 1:
            raise Undecided(f"a power of {n} of a sum")
        return _Fraction(self._checked(a.over**n), self._checked(a.under**n))

    def _constant(self, value: Any) -> _Fraction:
        return _Fraction(self._context.constant(flint.fmpq(value.p, value.q)), self._one)

    def _generator(self, key: Any) -> int:
        if key not in self._generators:
            if len(self._generators) == _MOST_GENERATORS:
                raise Undecided(f"more than {_MOST_GENERATORS} functions")
            self._generators[key] = len(self._generators)
            self._keys.append(key)
        return self._generators[key]

    def _gen(self, key: Any) -> _Fraction:
        return _Fraction(self._context.gen(self._generator(key)), self._one)

    def _reduced(self, value: _Fraction) -> _Fraction:
        """The value with the powers of roots and sines that are something else."""
        for k in reversed(list(self._relations)):
            for part in ("over", "under"):
                polynomial = getattr(value, part)
                if polynomial.degrees()[k] >= self._relations[k][0]:
                    other = _Fraction(value.under, self._one) if part == "over" else _Fraction(self._one, value.over)
                    new = self._without_powers(polynomial, k)
                    if part == "under":
                        if new.over == 0:
                            raise Undecided("a division by 0")
                        new = _Fraction(new.under, new.over)
                        value = self._make(value.over * new.over, new.under)
                    else:
                        value = self._make(new.over, new.under * other.over)
            if self._relations[k][0] == 2 and value.under.degrees()[k]:
                value = self._rationalised(value, k)
        return value

    def _rationalised(self, value: _Fraction, k: int) -> _Fraction:
        """The fraction with no square root of number `k` below the line, so that equal values look equal."""
        conjugate = self._context.from_dict({e: -c if int(e[k]) % 2 else c for e, c in value.under.to_dict().items()})
        over, under = (self._without_powers(self._checked(p * conjugate), k) for p in (value.over, value.under))
        if under.over == 0:
            raise Undecided("a division by 0")
        return self._make(over.over * under.under, over.under * under.over)

    def _without_powers(self, polynomial: Any, k: int) -> _Fraction:
        power, replacement = self._relations[k]
        parts: dict[int, dict[tuple[int, ...], Any]] = {}
        for exponents, coefficient in polynomial.to_dict().items():
            times, rest = divmod(int(exponents[k]), power)
            left = (*exponents[:k], rest, *exponents[k + 1 :])
            parts.setdefault(times, {})[left] = coefficient
        total = _Fraction(self._zero, self._one)
        for times, terms in parts.items():
            own = _Fraction(self._context.from_dict(terms), self._one)
            total = self._add(total, self._mul(own, self._int_power(replacement, times)))
        return total

    # ------------------------------------------------------------------------------------------ from SymPy
    def _value(self, e: Any) -> _Fraction:
        if e not in self._values:
            self._values[e] = self._reduced(self._read(e))
        return self._values[e]

    def _read(self, e: Any) -> _Fraction:
        import sympy

        if e.is_Rational:
            return self._constant(e)
        if e.is_Float:
            raise Undecided("a decimal that is no exact number")
        if e.is_Symbol or e in (sympy.pi, sympy.EulerGamma, sympy.Catalan):
            return self._gen(("symbol", e))
        if e.is_Add:
            return self._over_all(self._add, [self._value(a) for a in e.args])
        if e.is_Mul:
            return self._over_all(self._mul, [self._value(a) for a in e.args])
        if e is sympy.E:
            return self._exp(self._constant(sympy.Integer(1)))
        if isinstance(e, sympy.exp):
            return self._exp(self._value(e.args[0]))
        if e.is_Pow:
            return self._power(*e.args)
        if isinstance(e, sympy.log):
            return self._log(self._value(e.args[0]))
        if isinstance(e, sympy.Abs):
            inner = self._value(e.args[0])
            return self._times(inner, self._sign_of(inner))
        if isinstance(e, sympy.sign):
            return self._constant(sympy.Integer(self._sign_of(self._value(e.args[0]))))
        opened = self._opened(e)
        if opened is not None:
            return self._value(opened)
        if isinstance(e, sympy.Function):
            return self._function(e)
        raise Undecided(f"{type(e).__name__} is not understood")

    def _over_all(self, operation: Callable[..., _Fraction], values: Sequence[_Fraction]) -> _Fraction:
        total = values[0]
        for value in values[1:]:
            total = operation(total, value)
        return total

    def _times(self, a: _Fraction, n: int) -> _Fraction:
        return _Fraction(a.over * n, a.under)

    def _opened(self, e: Any) -> Any:
        """What a function means in exponentials, logarithms and one function of each family."""
        import sympy

        rules: dict[Any, Callable[..., Any]] = {
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
        }
        rule = rules.get(e.func)
        return None if rule is None else rule(*e.args)

    def _power(self, base: Any, exponent: Any) -> _Fraction:
        if exponent.is_Integer:
            return self._int_power(self._value(base), int(exponent))
        value = self._value(base)
        logarithm = self._log(value)
        if not exponent.is_Rational and self._sign_of(value) < 0:
            logarithm = self._add(logarithm, self._gen(("log", self._text(self._context.constant(-1)))))
        return self._exp(self._mul(self._value(exponent), logarithm))

    def _function(self, e: Any) -> _Fraction:
        """A generator for a function by the values of its arguments."""
        import sympy

        arguments = [self._value(a) for a in e.args]
        if isinstance(e, sympy.sin | sympy.cos):
            return self._turned(arguments[0])[isinstance(e, sympy.sin)]
        way = 1
        odd = (sympy.erf, sympy.atan, sympy.asin, sympy.erfinv)
        if isinstance(e, odd) and self._leads_negative(arguments[0]):
            arguments = [self._times(arguments[0], -1)]
            way = -1
        texts = tuple(f"{self._text(a.over)}/{self._text(a.under)}" for a in arguments)
        key = ("function", e.func, texts)
        known = key in self._generators
        result = self._gen(key)
        if not known:
            self._polynomials[str(key)] = arguments
        return self._times(result, way)

    def _turned(self, angle: _Fraction) -> tuple[_Fraction, _Fraction]:
        """Cosine and sine of a sum of angles, each a multiple of one whose cosine and sine are generators."""
        found = _Fraction(self._one, self._one), _Fraction(self._zero, self._one)
        lead = angle.under.leading_coefficient()
        under = angle.under / lead
        for exponents, coefficient in angle.over.to_dict().items():
            share = Fraction(int(coefficient.p), int(coefficient.q)) / Fraction(int(lead.p), int(lead.q))
            term = self._make(self._context.from_dict({exponents: flint.fmpq(1)}), under)
            key = ("angle", self._text(term.over), self._text(term.under))
            times, cosine, sine = self._unit_angle(key, share)
            for _ in range(abs(times)):
                found = self._rotated(found, cosine, sine if times > 0 else self._times(sine, -1))
        return found

    def _rotated(
        self, found: tuple[_Fraction, _Fraction], cosine: _Fraction, sine: _Fraction
    ) -> tuple[_Fraction, _Fraction]:
        """The sum of two angles by their cosines and sines."""
        c, s = found
        turned = (
            self._add(self._mul(c, cosine), self._times(self._mul(s, sine), -1)),
            self._add(self._mul(s, cosine), self._mul(c, sine)),
        )
        return self._reduced(turned[0]), self._reduced(turned[1])

    def _unit_angle(self, key: Any, share: Fraction) -> tuple[int, _Fraction, _Fraction]:
        """How often the unit of an angle is in it, with the cosine and the sine of the unit."""
        times = self._in_units(key, share)
        if abs(times) > _MOST_TURNS:
            raise Undecided(f"{times} times an angle")
        if self._is_pi(key) and self._units[key].denominator <= 2:
            times *= 2 if self._units[key].denominator == 1 else 1
            times *= self._units[key].numerator
            return times % 4, _Fraction(self._zero, self._one), _Fraction(self._one, self._one)
        of_sine = ("sine", *key[1:])
        sine, cosine = self._gen(of_sine), self._gen(("cosine", *key[1:]))
        self._relations[self._generators[of_sine]] = (2, _Fraction(self._one - cosine.over**2, self._one))
        return times, cosine, sine

    def _is_pi(self, key: Any) -> bool:
        import sympy

        own = self._generators.get(("symbol", sympy.pi))
        return own is not None and key[2] == "1" and key[1] == str(self._context.gen(own))

    def _leads_negative(self, value: _Fraction) -> bool:
        if value.over == 0:
            return False
        return bool((value.over.leading_coefficient() < 0) != (value.under.leading_coefficient() < 0))

    def _exp(self, value: _Fraction) -> _Fraction:
        """The product of the exponentials of the terms, each a power of one generator."""
        result = _Fraction(self._one, self._one)
        lead = value.under.leading_coefficient()
        under = value.under / lead
        for exponents, coefficient in value.over.to_dict().items():
            share = Fraction(int(coefficient.p), int(coefficient.q)) / Fraction(int(lead.p), int(lead.q))
            result = self._mul(result, self._exp_of_term(exponents, share, under))
        return result

    def _exp_of_term(self, exponents: tuple[int, ...], share: Fraction, under: Any) -> _Fraction:
        term = self._make(self._context.from_dict({exponents: flint.fmpq(1)}), under)
        if term.under == 1:
            ((own, coefficient),) = term.over.to_dict().items()
            places = [k for k, n in enumerate(own) if n]
            if coefficient == 1 and sum(own) == 1 and self._keys[places[0]][0] == "log":
                return self._root(self._keys[places[0]][1], share)
        return self._finer(("exp", self._text(term.over), self._text(term.under)), share)

    def _finer(self, key: Any, share: Fraction) -> _Fraction:
        """A power of a generator, which is a root fine enough for all powers that occur."""
        times = self._in_units(key, share)
        return self._int_power(self._gen(key), times)

    def _in_units(self, key: Any, share: Fraction) -> int:
        """How many units of a key a share is; raises _Again after it has made the unit finer."""
        unit = self._units.get(key)
        if unit is None:
            unit = self._units[key] = Fraction(1) if key[0] == "root" else abs(share)
        if (share / unit).denominator != 1:
            self._units[key] = Fraction(
                gcd(unit.numerator * share.denominator, share.numerator * unit.denominator),
                unit.denominator * share.denominator,
            )
            raise _Again
        return int(share / unit)

    def _root(self, text: str, share: Fraction) -> _Fraction:
        """A power of the absolute value of a polynomial or a prime."""
        base = _Fraction(self._polynomials[text], self._one)
        if text == "-1" and share.denominator == 1:
            return self._int_power(base, int(share) % 2)
        if share.denominator == 1 and share % 2 == 0:
            return self._int_power(base, int(share))
        size = self._times(base, self._sign_of(base))
        if share.denominator == 1:
            return self._int_power(size, int(share))
        result = self._finer(("root", text), share)
        self._relations[self._generators["root", text]] = (self._units["root", text].denominator, size)
        return self._reduced(result)

    def _log(self, value: _Fraction) -> _Fraction:
        """The logarithms of the irreducible factors."""
        if value.over == 0:
            raise Undecided("the logarithm of 0")
        result = _Fraction(self._zero, self._one)
        for polynomial, way in ((value.over, 1), (value.under, -1)):
            content, factors = polynomial.factor()
            for number, side in ((content.p, way), (content.q, -way)):
                for prime, power in flint.fmpz(abs(int(number))).factor():
                    own = self._gen(("log", self._text(self._context.constant(prime))))
                    result = self._add(result, self._times(own, side * int(power)))
            for factor, power in factors:
                result = self._add(result, self._times(self._log_of_factor(factor), way * int(power)))
        return result

    def _log_of_factor(self, factor: Any) -> _Fraction:
        terms = factor.to_dict()
        if len(terms) == 1:
            ((exponents, coefficient),) = terms.items()
            (k,) = (k for k, n in enumerate(exponents) if n)
            key = self._keys[k]
            if key[0] == "exp" and abs(coefficient) == 1:
                over, under = (self._polynomials[text] for text in key[1:])
                return self._make(over * _rational(self._units[key]), under)
            if key[0] == "root" and abs(coefficient) == 1:
                return self._make(self._gen(("log", key[1])).over * _rational(self._units[key]), self._one)
        lead = factor.leading_coefficient()
        own = self._gen(("log", self._text(factor / lead)))
        return own if abs(lead) == 1 else self._add(own, self._log(_Fraction(self._context.constant(lead), self._one)))

    def _text(self, polynomial: Any) -> str:
        text = str(polynomial)
        self._polynomials[text] = polynomial
        return text

    # ------------------------------------------------------------------------------------------ signs
    def _sign_of(self, value: _Fraction) -> int:
        """The sign that a value has at every point."""
        pairs = zip(self._at_points(value.over), self._at_points(value.under), strict=True)
        signs = {(a * b > 0) - (a * b < 0) for a, b in pairs}
        if len(signs) != 1 or signs == {0}:
            raise Undecided("the sign of a part is not everywhere the same")
        return int(signs.pop())

    def _at_points(self, polynomial: Any) -> list[Any]:
        """The values of a polynomial at the points, roughly."""
        total: list[Any] | None = None
        for exponents, coefficient in polynomial.to_dict().items():
            column: Any = mp.mpf(int(coefficient.p)) / int(coefficient.q)
            columns = [(self._numbers_of(k), n) for k, n in enumerate(exponents) if n]
            rows = [column] * len(columns[0][0]) if columns else None
            if rows is None:
                rows = [column] * self.count
            for numbers, n in columns:
                rows = [a * b ** int(n) for a, b in zip(rows, numbers, strict=True)]
            total = rows if total is None else [a + b for a, b in zip(total, rows, strict=True)]
        return total or [mp.mpf(0)] * self.count

    @property
    def count(self) -> int:
        """How many points decide signs."""
        return len(self._points(None))

    def _numbers_of(self, k: int) -> list[Any]:
        if k not in self._numbers:
            self._numbers[k] = self._computed(self._keys[k])
        return self._numbers[k]

    def _pairs(self, over: str, under: str) -> Iterator[tuple[Any, Any]]:
        """The values of two polynomials at the points."""
        return zip(self._at_points(self._polynomials[over]), self._at_points(self._polynomials[under]), strict=True)

    def _computed(self, key: Any) -> list[Any]:
        kind, first, *others = key
        if kind == "symbol":
            if first.is_number:
                return [mp.mpf(first.evalf(40))] * self.count
            return list(self._points(first))
        if kind == "exp":
            unit = mp.mpf(self._units[key].numerator) / self._units[key].denominator
            return [mp.exp(a / b * unit) for a, b in self._pairs(first, others[0])]
        if kind in ("sine", "cosine"):
            share = self._units["angle", first, others[0]]
            function = mp.sin if kind == "sine" else mp.cos
            return [function(a / b * share.numerator / share.denominator) for a, b in self._pairs(first, others[0])]
        if kind == "log":
            return [mp.log(abs(a)) for a in self._at_points(self._polynomials[first])]
        if kind == "root":
            return [mp.root(abs(a), self._units[key].denominator) for a in self._at_points(self._polynomials[first])]
        columns = []
        for value in self._polynomials[str(key)]:
            pairs = zip(self._at_points(value.over), self._at_points(value.under), strict=True)
            columns.append([a / b for a, b in pairs])
        import sympy

        return [mp.mpf(first(*(sympy.Float(v, 30) for v in row)).evalf(30)) for row in zip(*columns, strict=True)]
