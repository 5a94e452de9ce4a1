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

from symgrad.symbolic.rational_functions import Element, RationalFunctions, StartAgain, Undecided, rational

__all__ = ["Field"]

_MOST_RESTARTS = 20
_MOST_TURNS = 24  # times the smallest angle, in one sine or cosine
_CONSTANTS = {"pi": mp.pi, "EulerGamma": mp.euler, "Catalan": mp.catalan, "GoldenRatio": mp.phi}
_WHOLE = frozenset({"int", "int_tensor"})  # kinds of symbols that are whole numbers


class Field(RationalFunctions):
    """The field over the generators that what is computed in it needs.

    `values(symbol)` are the values of a symbol at the points that decide the sign of what stands under a root or
    between bars: it must be the same at all of them.
    """

    def __init__(self, values: Callable[[Any], Sequence[Any]]) -> None:
        super().__init__()
        self._points = values
        self._units: dict[Any, Fraction] = {}  # by exponential or root, what share of the exponent its generator has

    def _reset(self) -> None:
        super()._reset()
        self._numbers: dict[int, list[Any]] = {}
        self._polynomials: dict[str, Any] = {}

    def vanishes(self, compute: Callable[[], Element]) -> bool:
        """Whether what is computed in this field is 0, which is a proof that it is 0.

        It is computed again where a root turns out to be needed to a finer power, or more generators are. Raises
        Undecided where that does not end, and what computing it raises.
        """
        for _ in range(_MOST_RESTARTS):
            try:
                return bool(compute().over == 0)
            except StartAgain:
                self._reset()
        raise Undecided("roots of too many kinds")

    # ------------------------------------------------------------------------------------------ functions
    def named(self, name: str) -> Element:
        """A constant by its name."""
        if name != "E" and name not in _CONSTANTS:
            raise Undecided(f"{name} is no number")
        return self.exp(self.one) if name == "E" else self.generator(("constant", name))

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
        constant = value.over.to_dict().get((0,) * self._most, flint.fmpq(0))
        steps = int(constant.p) // int(constant.q)
        return Element(value.over - steps, self._one), steps

    def is_leading_negative(self, value: Element) -> bool:
        """Whether the first coefficient is negative, which decides how odd functions are written."""
        if value.over == 0:
            return False
        return bool((value.over.leading_coefficient() < 0) != (value.under.leading_coefficient() < 0))

    def turned(self, angle: Element) -> tuple[Element, Element]:
        """Cosine and sine of a sum of angles, each a multiple of one whose cosine and sine are generators."""
        found = self.one, self.zero
        for exponents, share, under in _terms(angle):
            if under == 1 and share % 2 == 0 and self._is_pi_times_whole(exponents):
                continue  # whole turns
            term = self._make(self._context.from_dict({exponents: flint.fmpq(1)}), under)
            key = ("angle", self._text(term.over), self._text(term.under))
            times, cosine, sine = self._unit_angle(key, share)
            for _ in range(abs(times)):
                found = self._rotated(found, cosine, sine if times > 0 else self.negative(sine))
        return found

    def _rotated(self, found: tuple[Element, Element], cosine: Element, sine: Element) -> tuple[Element, Element]:
        """The sum of two angles by their cosines and sines."""
        c, s = found
        turned = (
            self.difference(self.product(c, cosine), self.product(s, sine)),
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
            return times % 4, self.zero, self.one
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
        result = self.one
        for exponents, share, under in _terms(value):
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
        """How many units of a key a share is; raises StartAgain after it has made the unit finer."""
        unit = self._units.get(key)
        if unit is None:
            unit = self._units[key] = Fraction(1) if key[0] == "root" else abs(share)
        if (share / unit).denominator != 1:
            self._units[key] = Fraction(
                gcd(unit.numerator * share.denominator, share.numerator * unit.denominator),
                unit.denominator * share.denominator,
            )
            raise StartAgain
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
        result = self.zero
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
                return self._make(over * rational(self._units[key]), under)
            if key[0] == "root" and abs(coefficient) == 1:
                return self._make(self.generator(("log", key[1])).over * rational(self._units[key]), self._one)
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

        found = [first(*(sympy.Float(v, 30) for v in row)).evalf(30) for row in zip(*columns, strict=True)]
        if any(v.is_extended_real is False for v in found):
            raise Undecided(f"{first} is not everywhere real")
        return [mp.mpf(v) for v in found]


def _terms(value: Element) -> Iterator[tuple[tuple[int, ...], Fraction, Any]]:
    """The terms of a sum: the powers of the generators, the coefficient, and what all are divided by."""
    lead = value.under.leading_coefficient()
    under = value.under / lead
    for exponents, coefficient in value.over.to_dict().items():
        yield exponents, Fraction(int(coefficient.p), int(coefficient.q)) / Fraction(int(lead.p), int(lead.q)), under
