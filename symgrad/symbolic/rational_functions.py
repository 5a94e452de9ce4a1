"""Arithmetic of fractions of polynomials over generators, powers of some of which are other values."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import flint

from symgrad.errors import SymgradError

__all__ = ["Element", "RationalFunctions", "StartAgain", "Undecided", "rational"]

_FIRST_GENERATORS = 40  # arithmetic slows down with their number, so that a field has more only where it needs them
_MOST_GENERATORS = 120
_MOST_TERMS = 2_000  # of a polynomial: bounds the work
_MOST_PRODUCTS = 20_000  # of terms, in one product of polynomials
_MOST_WORK = 3_000_000  # products of terms in all common factors that are looked for
_MOST_POWER = 200


class Undecided(SymgradError):
    """The zero test cannot tell; the message says why."""


class StartAgain(Exception):
    """An exponential or a root stands to a finer power than its generator, or more generators are needed."""


class Element:
    """An element of a field: a fraction of two polynomials over the generators."""

    __slots__ = ("over", "under")

    def __init__(self, over: Any, under: Any) -> None:
        self.over, self.under = over, under


def rational(value: Fraction) -> Any:
    """A number as one of the coefficients."""
    return flint.fmpq(value.numerator, value.denominator)


class RationalFunctions:
    """Arithmetic in a field over as many generators as have come up. What is too large is Undecided."""

    def __init__(self) -> None:
        self._work = 0
        self._most = _FIRST_GENERATORS
        self._reset()

    def _reset(self) -> None:
        """Begin with no generators; how many there is room for has been learnt."""
        names = [f"g{k}" for k in range(self._most)]
        self._context = flint.fmpq_mpoly_ctx.get(names, "lex")
        self._one = self._context.constant(1)
        self._zero = self._context.constant(0)
        self._generators: dict[Any, int] = {}
        self._keys: list[Any] = []
        self._relations: dict[int, tuple[int, Element]] = {}  # generator -> the power of it that is another value

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
        return Element(self._context.constant(rational(Fraction(value))), self._one)

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

    def difference(self, a: Element, b: Element) -> Element:
        """a - b."""
        return self.sum(a, self.negative(b))

    def inverse(self, a: Element) -> Element:
        """The reciprocal. Raises Undecided for 0."""
        return self.int_power(a, -1)

    def _generator(self, key: Any) -> int:
        if key not in self._generators:
            if len(self._generators) == _MOST_GENERATORS:
                raise Undecided(f"more than {_MOST_GENERATORS} functions")
            if len(self._generators) == self._most:
                self._most = _MOST_GENERATORS
                raise StartAgain
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
