"""A zero test: whether something is 0 as an element of a rational function field.

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
from typing import Any

import flint
import mpmath as mp

from symgrad.errors import SymgradError

__all__ = ["Element", "Field", "Undecided"]

_MOST_GENERATORS = 40
_MOST_TERMS = 2_000  # of a polynomial: bounds the work
_MOST_PRODUCTS = 20_000  # of terms, in one product of polynomials
_MOST_WORK = 3_000_000  # products of terms in all common factors that are looked for
_MOST_POWER = 200
_MOST_RESTARTS = 20
_MOST_TURNS = 24  # times the smallest angle, in one sine or cosine


_CONSTANTS = {"pi": mp.pi, "EulerGamma": mp.euler, "Catalan": mp.catalan, "GoldenRatio": mp.phi}


class Undecided(SymgradError):
    """The zero test cannot tell; the message says why."""


class _Again(Exception):
    """An exponential or a root stands to a finer power than its generator."""


class Element:
    """An element of a field: a fraction of two polynomials over the generators."""

    __slots__ = ("over", "under")

    def __init__(self, over: Any, under: Any) -> None:
        self.over, self.under = over, under


def _rational(value: Fraction) -> Any:
    return flint.fmpq(value.numerator, value.denominator)


_WHOLE = frozenset({"int", "int_tensor"})  # kinds of symbols that are whole numbers


class Field:
    """The field over the generators that what is computed in it needs.

    `values(symbol)` are the values of a symbol at the points that decide the sign of what stands under a root or
    between bars: it must be the same at all of them.
    """

    def __init__(self, values: Callable[[Any], Sequence[Any]]) -> None:
        self._points = values
        self._work = 0
        self._units: dict[Any, Fraction] = {}  # by exponential or root, what share of the exponent its generator has
        self._reset()

    def _reset(self) -> None:
        names = [f"g{k}" for k in range(_MOST_GENERATORS)]
        self._context = flint.fmpq_mpoly_ctx.get(names, "lex")
        self._one = self._context.constant(1)
        self._zero = self._context.constant(0)
        self._generators: dict[Any, int] = {}
        self._keys: list[Any] = []
        self._relations: dict[int, tuple[int, Element]] = {}  # generator -> the power of it that is another value
        self._numbers: dict[int, list[Any]] = {}
        self._polynomials: dict[str, Any] = {}

    def vanishes(self, compute: Callable[[], Element]) -> bool:
        """Whether what is computed in this field is 0, which is a proof that it is 0.

        It is computed again where a root turns out to be needed to a finer power. Raises Undecided where that does not
        end, and what computing it raises.
        """
        for _ in range(_MOST_RESTARTS):
            try:
                return bool(compute().over == 0)
            except _Again:
                self._reset()
        raise Undecided("roots of too many kinds")

    # ------------------------------------------------------------------------------------------ arithmetic
    def _checked(self, polynomial: Any) -> Any:
        if len(polynomial) > _MOST_TERMS:
            raise Undecided(f"more than {_MOST_TERMS} terms")
        return polynomial

    def _make(self, over: Any, under: Any) -> Element:
        self._work += len(over) * len(under)
        if self._work > _MOST_WORK:
            raise Undecided("fractions that are too large")
        common = over.gcd(under) * under.leading_coefficient()
        if common != 1:
            over, under = over / common, under / common
        return Element(self._checked(over), self._checked(under))

    def sum(self, a: Element, b: Element) -> Element:
        """a + b."""
        if a.under == b.under:
            return self._make(a.over + b.over, a.under)
        over = self._times_polynomial(a.over, b.under) + self._times_polynomial(b.over, a.under)
        return self._make(over, self._times_polynomial(a.under, b.under))

    def product(self, a: Element, b: Element) -> Element:
        """a * b."""
        return self._make(self._times_polynomial(a.over, b.over), self._times_polynomial(a.under, b.under))

    def _times_polynomial(self, p: Any, q: Any) -> Any:
        if len(p) * len(q) > _MOST_PRODUCTS:
            raise Undecided(f"more than {_MOST_PRODUCTS} products of terms")
        return p * q

    def int_power(self, a: Element, n: int) -> Element:
        """A power with a whole number."""
        if abs(n) > _MOST_POWER:
            raise Undecided(f"a power of {n}")
        if n < 0:
            if a.over == 0:
                raise Undecided("a division by 0")
            a, n = Element(a.under, a.over), -n
        if n * max(len(a.over), len(a.under)) > _MOST_POWER and max(len(a.over), len(a.under)) > 1:
            raise Undecided(f"a power of {n} of a sum")
        return Element(self._checked(a.over**n), self._checked(a.under**n))

    def constant(self, value: int | Fraction) -> Element:
        """A rational number."""
        return Element(self._context.constant(_rational(Fraction(value))), self._one)

    def named(self, name: str) -> Element:
        """A constant by its name."""
        if name != "E" and name not in _CONSTANTS:
            raise Undecided(f"{name} is no number")
        return self.exp(self.one) if name == "E" else self.generator(("constant", name))

    @property
    def one(self) -> Element:
        """The number 1."""
        return Element(self._one, self._one)

    @property
    def zero(self) -> Element:
        """The number 0."""
        return Element(self._zero, self._one)

    def times(self, a: Element, n: int) -> Element:
        """n * a."""
        return Element(a.over * n, a.under)

    def negative(self, a: Element) -> Element:
        """The value with the other sign."""
        return Element(-a.over, a.under)

    def inverse(self, a: Element) -> Element:
        """The reciprocal. Raises Undecided for 0."""
        return self.int_power(a, -1)

    def _generator(self, key: Any) -> int:
        if key not in self._generators:
            if len(self._generators) == _MOST_GENERATORS:
                raise Undecided(f"more than {_MOST_GENERATORS} functions")
            self._generators[key] = len(self._generators)
            self._keys.append(key)
        return self._generators[key]

    def generator(self, key: Any) -> Element:
        """The element that a key stands for."""
        return Element(self._context.gen(self._generator(key)), self._one)

    def reduced(self, value: Element) -> Element:
        """The value with the powers of roots and sines that are something else."""
        for k in reversed(list(self._relations)):
            for part in ("over", "under"):
                polynomial = getattr(value, part)
                if polynomial.degrees()[k] >= self._relations[k][0]:
                    other = Element(value.under, self._one) if part == "over" else Element(self._one, value.over)
                    new = self._without_powers(polynomial, k)
                    if part == "under":
                        if new.over == 0:
                            raise Undecided("a division by 0")
                        new = Element(new.under, new.over)
                        value = self._make(value.over * new.over, new.under)
                    else:
                        value = self._make(new.over, new.under * other.over)
            if self._relations[k][0] == 2 and value.under.degrees()[k]:
                value = self._rationalised(value, k)
        return value

    def _rationalised(self, value: Element, k: int) -> Element:
        """The fraction with no square root of number `k` below the line, so that equal values look equal."""
        conjugate = self._context.from_dict({e: -c if int(e[k]) % 2 else c for e, c in value.under.to_dict().items()})
        over, under = (self._without_powers(self._checked(p * conjugate), k) for p in (value.over, value.under))
        if under.over == 0:
            raise Undecided("a division by 0")
        return self._make(over.over * under.under, over.under * under.over)

    def _without_powers(self, polynomial: Any, k: int) -> Element:
        power, replacement = self._relations[k]
        parts: dict[int, dict[tuple[int, ...], Any]] = {}
        for exponents, coefficient in polynomial.to_dict().items():
            times, rest = divmod(int(exponents[k]), power)
            left = (*exponents[:k], rest, *exponents[k + 1 :])
            parts.setdefault(times, {})[left] = coefficient
        total = Element(self._zero, self._one)
        for times, terms in parts.items():
            own = Element(self._context.from_dict(terms), self._one)
            total = self.sum(total, self.product(own, self.int_power(replacement, times)))
        return total

    # ------------------------------------------------------------------------------------------ functions
    def power(self, base: Element, exponent: Element, number: Fraction | None) -> Element:
        """A power, where `number` is the exponent if that is a number."""
        if number is not None and number.denominator == 1:
            return self.int_power(base, int(number))
        logarithm = self.log(base)
        if number is None and self.sign(base) < 0:
            logarithm = self.sum(logarithm, self.generator(("log", self._text(self._context.constant(-1)))))
        return self.exp(self.product(exponent, logarithm))

    def function(self, kind: Any, arguments: Sequence[Element]) -> Element:
        """A generator for a function of SymPy's by the values of its arguments."""
        texts = tuple(f"{self._text(a.over)}/{self._text(a.under)}" for a in arguments)
        key = ("function", kind, texts)
        result = self.generator(key)
        self._polynomials.setdefault(str(key), list(arguments))
        return result

    def split(self, value: Element) -> tuple[Element, int]:
        """A value as one whose constant term is in [0, 1), and a whole number; for functions with a step."""
        if value.under != self._one:
            return value, 0
        constant = value.over.to_dict().get((0,) * _MOST_GENERATORS, flint.fmpq(0))
        steps = int(constant.p) // int(constant.q)
        return Element(value.over - steps, self._one), steps

    def is_leading_negative(self, value: Element) -> bool:
        """Whether the first coefficient is negative, which decides how odd functions are written."""
        if value.over == 0:
            return False
        return bool((value.over.leading_coefficient() < 0) != (value.under.leading_coefficient() < 0))

    def turned(self, angle: Element) -> tuple[Element, Element]:
        """Cosine and sine of a sum of angles, each a multiple of one whose cosine and sine are generators."""
        found = Element(self._one, self._one), Element(self._zero, self._one)
        lead = angle.under.leading_coefficient()
        under = angle.under / lead
        for exponents, coefficient in angle.over.to_dict().items():
            share = Fraction(int(coefficient.p), int(coefficient.q)) / Fraction(int(lead.p), int(lead.q))
            if under == 1 and share % 2 == 0 and self._is_pi_times_whole(exponents):
                continue  # whole turns
            term = self._make(self._context.from_dict({exponents: flint.fmpq(1)}), under)
            key = ("angle", self._text(term.over), self._text(term.under))
            times, cosine, sine = self._unit_angle(key, share)
            for _ in range(abs(times)):
                found = self._rotated(found, cosine, sine if times > 0 else self.times(sine, -1))
        return found

    def _rotated(self, found: tuple[Element, Element], cosine: Element, sine: Element) -> tuple[Element, Element]:
        """The sum of two angles by their cosines and sines."""
        c, s = found
        turned = (
            self.sum(self.product(c, cosine), self.times(self.product(s, sine), -1)),
            self.sum(self.product(s, cosine), self.product(c, sine)),
        )
        return self.reduced(turned[0]), self.reduced(turned[1])

    def _unit_angle(self, key: Any, share: Fraction) -> tuple[int, Element, Element]:
        """How often the unit of an angle is in it, with the cosine and the sine of the unit."""
        times = self._in_units(key, share)
        if abs(times) > _MOST_TURNS:
            raise Undecided(f"{times} times an angle")
        if self._is_pi(key) and self._units[key].denominator <= 2:
            times *= 2 if self._units[key].denominator == 1 else 1
            times *= self._units[key].numerator
            return times % 4, Element(self._zero, self._one), Element(self._one, self._one)
        of_sine = ("sine", *key[1:])
        sine, cosine = self.generator(of_sine), self.generator(("cosine", *key[1:]))
        self._relations[self._generators[of_sine]] = (2, Element(self._one - cosine.over**2, self._one))
        return times, cosine, sine

    def _is_pi(self, key: Any) -> bool:
        own = self._generators.get(("constant", "pi"))
        return own is not None and key[2] == "1" and key[1] == str(self._context.gen(own))

    def _is_pi_times_whole(self, exponents: tuple[int, ...]) -> bool:
        """Whether a product of generators is pi times whole numbers."""
        powers = {self._keys[k]: e for k, e in enumerate(exponents) if e}
        if powers.pop(("constant", "pi"), 0) != 1:
            return False
        return all(e > 0 and kind == "symbol" and own["kind"] in _WHOLE for (kind, own, *_), e in powers.items())

    def exp(self, value: Element) -> Element:
        """The product of the exponentials of the terms, each a power of one generator."""
        result = Element(self._one, self._one)
        lead = value.under.leading_coefficient()
        under = value.under / lead
        for exponents, coefficient in value.over.to_dict().items():
            share = Fraction(int(coefficient.p), int(coefficient.q)) / Fraction(int(lead.p), int(lead.q))
            result = self.product(result, self._exp_of_term(exponents, share, under))
        return result

    def _exp_of_term(self, exponents: tuple[int, ...], share: Fraction, under: Any) -> Element:
        term = self._make(self._context.from_dict({exponents: flint.fmpq(1)}), under)
        if term.under == 1:
            ((own, coefficient),) = term.over.to_dict().items()
            places = [k for k, n in enumerate(own) if n]
            key = self._keys[places[0]] if coefficient == 1 and sum(own) == 1 else ("", "")
            if key[0] == "log":
                return self._root(key[1], share)
            if getattr(key[1], "__name__", "") == "LambertW" and share.denominator == 1:  # w*exp(w) = x
                of, *_ = self._polynomials[str(key)]
                return self.int_power(self.product(of, self.inverse(self.generator(key))), int(share))
        return self._finer(("exp", self._text(term.over), self._text(term.under)), share)

    def _finer(self, key: Any, share: Fraction) -> Element:
        """A power of a generator, which is a root fine enough for all powers that occur."""
        times = self._in_units(key, share)
        return self.int_power(self.generator(key), times)

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

    def _root(self, text: str, share: Fraction) -> Element:
        """A power of the absolute value of a polynomial or a prime."""
        base = Element(self._polynomials[text], self._one)
        if text == "-1" and share.denominator == 1:
            return self.int_power(base, int(share) % 2)
        if share.denominator == 1 and share % 2 == 0:
            return self.int_power(base, int(share))
        size = self.times(base, self.sign(base))
        if share.denominator == 1:
            return self.int_power(size, int(share))
        result = self._finer(("root", text), share)
        self._relations[self._generators["root", text]] = (self._units["root", text].denominator, size)
        return self.reduced(result)

    def log(self, value: Element) -> Element:
        """The logarithms of the irreducible factors."""
        if value.over == 0:
            raise Undecided("the logarithm of 0")
        result = Element(self._zero, self._one)
        for polynomial, way in ((value.over, 1), (value.under, -1)):
            content, factors = polynomial.factor()
            for number, side in ((content.p, way), (content.q, -way)):
                for prime, power in flint.fmpz(abs(int(number))).factor():
                    own = self.generator(("log", self._text(self._context.constant(prime))))
                    result = self.sum(result, self.times(own, side * int(power)))
            for factor, power in factors:
                result = self.sum(result, self.times(self._log_of_factor(factor), way * int(power)))
        return result

    def _log_of_factor(self, factor: Any) -> Element:
        terms = factor.to_dict()
        if len(terms) == 1:
            ((exponents, coefficient),) = terms.items()
            (k,) = (k for k, n in enumerate(exponents) if n)
            key = self._keys[k]
            if key[0] == "exp" and abs(coefficient) == 1:
                over, under = (self._polynomials[text] for text in key[1:])
                return self._make(over * _rational(self._units[key]), under)
            if key[0] == "root" and abs(coefficient) == 1:
                return self._make(self.generator(("log", key[1])).over * _rational(self._units[key]), self._one)
        lead = factor.leading_coefficient()
        own = self.generator(("log", self._text(factor / lead)))
        return own if abs(lead) == 1 else self.sum(own, self.log(Element(self._context.constant(lead), self._one)))

    def _text(self, polynomial: Any) -> str:
        text = str(polynomial)
        self._polynomials[text] = polynomial
        return text

    # ------------------------------------------------------------------------------------------ signs
    def sign(self, value: Element) -> int:
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
            return list(self._points(first))
        if kind == "constant":
            return [+_CONSTANTS[first]] * self.count
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
