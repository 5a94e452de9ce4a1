"""Cheaper forms for a fused pass, where memory is free and transcendental functions and divisions are what costs.

Sigmoids and what is made of softplus are rational in e = exp(-|u|), with positive terms only, so nothing cancels and
nothing overflows. Factors that depend on the same u share one exponential, and what they share above and below the
fraction line goes. With E = exp(u) and A = 1 + e, a factor is a product of powers of e, A, D and N:

    sigmoid(u)               E / (1 + E)
    sigmoid(2 softplus(u))   (1 + E)**2 / ((1 + E)**2 + 1)
    tanh(softplus(u))        N / D,  D = (1 + E)**2 + 1,  N = D - 2

where D and N are given for u < 0 as they stand, with e in place of E, and else times e**2, with 1/e in place of E.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256

import mpmath as mp

from symgrad.accuracy.evaluate import exact
from symgrad.accuracy.widening import is_double
from symgrad.differentiate.modes import local_partials
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import COMPARISONS, Expr, make
from symgrad.ir.traversal import rebuild, substitute, topological
from symgrad.ops.functions import FUNCTIONS

__all__ = ["Factor", "rational_forms", "with_equal_arguments", "with_reciprocals", "with_row_values"]


@dataclass(frozen=True)
class Factor:
    """Powers of e (for u < 0, and else), of A, of N and of D."""

    below: int = 0
    above: int = 0
    a: int = 0
    n: int = 0
    d: int = 0

    def __mul__(self, other: Factor) -> Factor:
        sums = (getattr(self, k) + getattr(other, k) for k in ("below", "above", "a", "n", "d"))
        return Factor(*sums)

    def __pow__(self, k: int) -> Factor:
        return Factor(*(k * p for p in (self.below, self.above, self.a, self.n, self.d)))


_SIGMOID, _MIRRORED = Factor(below=1, a=-1), Factor(above=1, a=-1)
_OF_SOFTPLUS = {
    ("tanh", 1): Factor(n=1, d=-1),
    ("sigmoid", 2): Factor(a=2, d=-1),
    ("sigmoid", -2): Factor(above=2, d=-1),
}


def rational_forms(roots: Sequence[Expr]) -> list[Expr]:
    """The roots with such factors in terms of one exponential for each argument."""
    mapped: dict[Expr, Expr] = {}
    for node in topological(*roots):
        found = _product(node)
        if found is None:
            mapped[node] = rebuild(node, [mapped[a] for a in node.args]) if node.args else node
        else:
            rest, factors = found
            parts = [_written(mapped.get(u, u), factor) for u, factor in factors.items()]
            mapped[node] = ex.mul(*(mapped[r] for r in rest), *parts)
    return [mapped[r] for r in roots]


def _product(node: Expr) -> tuple[list[Expr], dict[Expr, Factor]] | None:
    """The factors of a product that are such functions, by their argument, and the others; None if there are none."""
    rest: list[Expr] = []
    factors: dict[Expr, Factor] = {}
    for part in node.factors:
        base, exponent = ex.split_power(part)
        found = None if base.is_static else _factor(base)
        power = exponent.number
        if found is None or power is None or power.denominator != 1:
            rest.append(part)
        else:
            u, factor = found
            factors[u] = factors.get(u, Factor()) * factor ** int(power)
    return (rest, factors) if factors else None


def _factor(node: Expr) -> tuple[Expr, Factor] | None:
    """The argument u and the powers, of a function that has such a form."""
    if node.op not in ("tanh", "sigmoid"):
        return None
    coefficient, inner = ex.split_coefficient(node.args[0])
    known = _OF_SOFTPLUS.get((node.op, int(coefficient))) if coefficient.denominator == 1 else None
    if inner.op == "softplus" and known is not None:
        return inner.args[0], known
    if node.op == "sigmoid":
        mirrored = _is_negative(node.args[0])
        return (-node.args[0], _MIRRORED) if mirrored else (node.args[0], _SIGMOID)
    return None


def _is_negative(value: Expr) -> bool:
    """Whether a value is written with a minus in front: one of u and -u, always the same."""
    leading = value.args[0] if value.op == "add" else value
    return ex.split_coefficient(leading)[0] < 0


def _written(u: Expr, f: Factor) -> Expr:
    """The factor as an expression in e."""
    e = make("exp", ex.mul(-1, make("abs", u)))
    negative = truth.compare("lt", u, 0)
    # Powers of one sign alone have something in common: e**-1 * e is no number at e = 0.
    common = max(0, min(f.below, f.above)) + min(0, max(f.below, f.above))
    chosen = truth.where(negative, e ** (f.below - common), e ** (f.above - common))
    parts = [e**common, chosen, (1 + e) ** f.a]
    if f.d:
        parts.append(truth.where(negative, e * (e + 2) + 2, 2 * e * (e + 1) + 1) ** f.d)
    if f.n:
        parts.append(truth.where(negative, e * (e + 2), 2 * e + 1) ** f.n)
    return ex.mul(*parts)


def with_equal_arguments(roots: Sequence[Expr]) -> list[Expr]:
    """The roots with one form for all arguments of functions that are equal up to their sign.

    An argument in another form is rounded otherwise, so this is to be measured.
    """
    arguments = [n.args[0] for n in topological(*roots) if n.op in ("sigmoid", "tanh", "exp") and not n.is_static]
    arguments = [a for a in dict.fromkeys(arguments) if not any(n.op.startswith("row_") for n in topological(a))]
    replaced: dict[Expr, Expr] = {}
    known: list[tuple[Expr, list[mp.mpf]]] = []
    for argument in sorted(arguments, key=lambda a: (a.size, a.order)):
        values = _sampled(argument)
        for other, others in known:
            alike = is_double(other) == is_double(argument)  # what is equal is not where it is of other digits
            sign = next((s for s in (1, -1) if alike and _agree(values, others, s)), 0)
            if sign:
                replaced[argument] = ex.mul(sign, other)
                break
        else:
            known.append((argument, values))
    return [_replaced(r, replaced) for r in roots]


def _replaced(root: Expr, replaced: dict[Expr, Expr]) -> Expr:
    return substitute(root, {k: v for k, v in replaced.items() if k is not v})


_PRECISION = 120  # bits
_SAMPLES = 12  # for every way of choices


def _sampled(value: Expr) -> list[mp.mpf]:
    """The value at some points; a symbol is worth the same wherever it occurs, and no other is worth that."""
    found = []
    for k in range(_SAMPLES):
        smooth = _without_choices(value, k)
        (result,) = exact([smooth], {s: _drawn(s, k) for s in smooth.symbols}, _PRECISION)
        found.append(result)
    return found


def _without_choices(value: Expr, k: int) -> Expr:
    """The value with one way of each choice, and with a number in place of each function that is not smooth.

    What is smooth is equal everywhere where it is so at points of any kind. Which way is taken at a point would hide
    those that are taken where two values are equal, or far away.
    """
    mapped: dict[Expr, Expr] = {}
    for node in topological(value):
        ways = _ways(node)
        if ways:  # those of one condition are the same
            mapped[node] = mapped[ways[_bits(node.args[0] if node.op == "where" else node, k) % len(ways)]]
        elif _is_smooth(node):
            mapped[node] = rebuild(node, [mapped[a] for a in node.args])
        else:
            mapped[node] = ex.num(Fraction(_drawn(node, k)))
    return mapped[value]


def _ways(node: Expr) -> tuple[Expr, ...]:
    """The operands that a choice may be; none of what is no choice."""
    if node.op in ("minimum", "maximum"):
        return node.args
    if node.op == "clamp":
        return tuple(a for a in node.args if a not in (ex.OO, -ex.OO))
    return node.args[1:] if node.op == "where" else ()


def _is_smooth(node: Expr) -> bool:
    """Whether an operation has derivatives everywhere that are no choices."""
    if node.op not in FUNCTIONS:
        return not node.is_boolean
    local = local_partials(node)
    return any(p.number != 0 for p in local) and not any(n.op in _CHOICES for n in topological(*local))


_CHOICES = {"where", "sign", "heaviside", *COMPARISONS}


def _drawn(node: Expr, k: int) -> float:
    """A number between -4 and 4 of either sign, for each node and point another."""
    return (_bits(node, k) / 2**47 - 1) * 4


def _bits(node: Expr, k: int) -> int:
    return int.from_bytes(sha256(node.digest + bytes([k])).digest()[:6], "big")


def _agree(left: Iterable[mp.mpf], right: Iterable[mp.mpf], sign: int) -> bool:
    with mp.workprec(_PRECISION):
        return all(
            mp.isfinite(a) and abs(a - sign * b) <= mp.mpf(10) ** -25 * abs(a) for a, b in zip(left, right, strict=True)
        )


def with_reciprocals(roots: Sequence[Expr]) -> list[Expr]:
    """Divisions by the same value as products with its reciprocal, computed once: a rounding more, a division less.

    Only by values between 1 and a small number, whose powers can be multiplied in any order; and by what belongs to a
    whole row and is kept from 0 by a constant. What is rounded to a level keeps its own rounding, as in
    `with_row_values`.
    """
    uses: dict[Expr, int] = {}
    exact = _decides_levels(roots)
    for node in (*roots, *(a for n in topological(*roots) for a in n.args)):
        if _divides(node):
            uses[node.args[0]] = uses.get(node.args[0], 0) + int(-node.args[1]["value"])
    mapped: dict[Expr, Expr] = {}
    for node in topological(*roots):
        args = [mapped[a] for a in node.args]
        if node in exact:
            mapped[node] = node
        elif _divides_by_row(node):
            mapped[node] = make("row_reciprocal", ex.power(args[0], ex.num(-node.args[1]["value"])))
        elif _divides(node) and uses[node.args[0]] > 1:
            mapped[node] = ex.power(make("reciprocal", args[0]), ex.num(-node.args[1]["value"]))
        else:
            mapped[node] = rebuild(node, args) if args else node
    return [mapped[r] for r in roots]


def _decides_levels(roots: Sequence[Expr]) -> frozenset[Expr]:
    """All that rounding functions, and comparisons with anything but 0, are computed from."""
    jumps = (n for n in topological(*roots) if n.op in _JUMPS or (n.op in COMPARISONS and ex.ZERO not in n.args))
    return frozenset(topological(*(a for n in jumps for a in n.args)))


_JUMPS = {"round", "floor", "ceil", "trunc", "fmod"}


def _divides(node: Expr) -> bool:
    return node.op == "pow" and node.args[1].number in (-1, -2, -3) and _is_moderate(node.args[0])


def with_row_values(roots: Sequence[Expr]) -> list[Expr]:
    """Products in which what belongs to a whole row comes first, with the numbers: it is computed once for the row.

    Not in what is rounded to a level: of w / s * 7 at a tie, w * (7 / s) is often on the other side of it.
    """
    mapped: dict[Expr, Expr] = {}
    exact = _decides_levels(roots)
    for node in topological(*roots):
        args = [mapped[a] for a in node.args]
        mapped[node] = rebuild(node, args) if args and node not in exact else node
        if node.op == "mul" and node not in exact and mapped[node].op == "mul":
            row = [a for a in mapped[node].args if _belongs_to_row(a)]
            numbers = [a for a in mapped[node].args if a.is_static]
            rest = [a for a in mapped[node].args if a not in row and a not in numbers]
            if row and rest and len(row) + len(numbers) > 1:
                mapped[node] = ex.mul(make("row_value", ex.mul(*numbers, *row)), *rest)
    return [mapped[r] for r in roots]


def _belongs_to_row(value: Expr) -> bool:
    """Whether a value follows from reductions of a row and numbers alone."""
    rows = [n for n in topological(value) if n.op.startswith("row_")]
    return bool(rows) and not any(n.op == "sym" and n.tensors for n in topological(value, leaves=rows))


def _divides_by_row(node: Expr) -> bool:
    """Whether a power divides by reductions of a row, plus a constant."""
    if node.op != "pow" or node.args[1].number is None or node.args[1]["value"] >= 0:
        return False
    base = ex.split_power(node.args[0])[0]
    return base.op == "add" and any(a.is_static for a in base.args) and _belongs_to_row(base)


def _is_moderate(value: Expr) -> bool:
    """Whether a value is a sum of positive numbers and products of exponentials exp(-|u|)."""
    if value.op == "where":
        return all(map(_is_moderate, value.args[1:]))
    if value.op == "exp":
        coefficient, inner = ex.split_coefficient(value.args[0])
        return coefficient < 0 and inner.op == "abs"
    if value.op == "num":
        return bool(value["value"] > 0)
    return value.op in ("add", "mul") and all(map(_is_moderate, value.args))
