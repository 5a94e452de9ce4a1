"""The order in which a spec writes its sums.

Sums are flat and sorted, so that equal ones are one node. In floating point their order matters all the same: of
1 - p + 1e-8 nothing is left at p = 1 where the numbers are added first. So the parser notes what it has read, and
machine form adds up in that order. Derivatives have sums of their own: such a one begins with what is a sum in the
spec, as t - s in t - s + v/k. It holds for one spec at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from itertools import accumulate
from math import frexp, ldexp
from struct import pack, unpack
from types import MappingProxyType
from typing import TypeAlias

from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import forget_nodes, kept

__all__ = ["Orders", "begun", "in_order", "note", "parts_of", "renamed"]

Orders: TypeAlias = Mapping[Expr, tuple[Expr, ...]]
"""What is added up from left to right, by the sum: terms, and sums that stand in brackets or have a name."""

_SHORT = 2**6  # digits of a number to which another one was added
_LEAST, _LITTLE = Fraction(1, 2**50), Fraction(1, 2**13)  # what that is to it
_LARGEST = 2**127

_ORDERS: ContextVar[Orders] = ContextVar("orders", default=MappingProxyType({}))


@contextmanager
def in_order(orders: Orders) -> Iterator[None]:
    """While it lasts, sums are added up as a spec writes them."""
    if orders == _ORDERS.get():
        yield
        return
    forget_nodes()
    token = _ORDERS.set(orders)
    try:
        yield
    finally:
        _ORDERS.reset(token)
        forget_nodes()


def parts_of(total: Expr) -> tuple[Expr, ...]:
    """What a sum of three terms or more is made of, in the order in which the spec adds it up, or begins to do so;
    nothing where it has no such sum.

    A number of which a short one and a small rest are left, as of 1 + 1e-8, was two numbers for SymPy.
    """
    if total.op != "add" or len(total.args) < 3:
        return _apart(total)
    return _ORDERS.get().get(total) or _apart(total) or _continued(total)


@kept
def _continued(total: Expr) -> tuple[Expr, ...]:
    """A sum as the largest one of the spec that is part of it, or is taken away in it, and the other terms."""
    terms = frozenset(total.args)
    for part in _parts():
        for sign in (1, -1) if len(part.args) < len(terms) else ():
            own = [ex.mul(sign, t) for t in part.args]
            if terms.issuperset(own):
                return (ex.add(*own), *(t for t in total.args if t not in own))
    return ()


@kept
def _parts() -> list[Expr]:
    """The sums of a spec, also those with which others begin; the largest first."""
    orders = _ORDERS.get()
    begun = (s for parts in orders.values() for s in accumulate(parts, ex.add) if s.op == "add")
    return sorted(dict.fromkeys((*orders, *begun)), key=lambda s: -len(s.args))


@kept
def _apart(total: Expr) -> tuple[Expr, ...]:
    numbers = [(t, t.number) for t in total.args if t.number is not None] if total.op == "add" else []
    for term, number in numbers:
        if abs(number) >= _LARGEST or _is_exact(number):
            continue
        digits, exponent = frexp(float(number))
        short = Fraction(ldexp(round(digits * _SHORT), exponent)) / _SHORT
        if short and _LEAST < abs(number / short - 1) < _LITTLE:
            return ex.num(short), *(t for t in total.args if t is not term), ex.num(number - short)
    return ()


def begun(total: Expr) -> Iterator[Expr]:
    """The sums of the first parts of a sum, which are computed on the way to it."""
    for number, found in enumerate(accumulate(parts_of(total), ex.add)):
        if found.op == "add" and number + 1 < len(parts_of(total)):
            yield found


def note(orders: dict[Expr, tuple[Expr, ...]], total: Expr, terms: Sequence[Expr]) -> None:
    """Note in which order terms are added up to a sum, if that matters, and if none of them has merged with another."""
    found = [t for term in terms for t in (term.args if term.op == "add" else (term,))]
    if total.op != "add":
        return
    others = Counter(t for t in found if t.number is None)
    if others == Counter(t for t in total.args if t.number is None) and not _merges(found):
        orders.setdefault(total, tuple(terms))


def _merges(terms: Sequence[Expr]) -> bool:
    """Whether several of the terms are numbers whose sum is one of float32 too: added first they are one operation."""
    numbers = [t.number for t in terms if t.number is not None]
    return len(numbers) > 1 and _is_exact(sum(numbers, Fraction(0)))


def _is_exact(number: Fraction) -> bool:
    """Whether a number is one of float32."""
    return abs(number) < _LARGEST and bool(unpack("f", pack("f", float(number)))[0] == number)


def renamed(orders: dict[Expr, tuple[Expr, ...]], total: Expr, mapped: Mapping[Expr, Expr], new: Expr) -> None:
    """Note the order of a sum for the one that it becomes where its terms are mapped."""

    def image(part: Expr) -> Expr:
        return ex.add(*map(image, part.args)) if part.op == "add" and part not in mapped else mapped.get(part, part)

    if new is not total and total in orders:
        note(orders, new, [image(part) for part in orders[total]])
