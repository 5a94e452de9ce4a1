"""Conditions that ordinary samples show too seldom on one of their sides: masks, and equalities of floats; and jumps.

A mask depends on variables that nothing else reads. Sampled like the others, these leave few points to each side. An
equality holds at no sample at all. Points for both are added to those where every variable is sampled. On which side
of a jump a point is, rounding may decide.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from fractions import Fraction
from itertools import islice

from symgrad.accuracy.evaluate import FLOAT32, FLOAT64, Environment
from symgrad.accuracy.machine import machine
from symgrad.accuracy.simulate import Simulation
from symgrad.ir.expr import COMPARISONS, Expr
from symgrad.ir.traversal import topological
from symgrad.ops.functions import FUNCTIONS

__all__ = ["equal", "equalities", "jumps", "masks", "sides"]

_MOST_SIDES, _LARGE = 4, 2**100
_LEAST, _MOST = 1e-2, 1e2  # of an ordinary number


def masks(region: Expr) -> tuple[Expr, ...]:
    """The conditions of choices that depend on tensors which nothing but such conditions reads."""
    conditions = dict.fromkeys(n.args[0] for n in topological(region) if n.op == "where" and n.args[0].tensors)
    while True:
        outside = topological(region, leaves=frozenset(conditions))
        read = {s for s in outside if s.op == "sym" and s not in conditions}
        mixed = [c for c in conditions if not read.isdisjoint(c.tensors)]
        if not mixed:
            return tuple(conditions)
        for condition in mixed:
            del conditions[condition]


def equal(form: Expr) -> list[Expr]:
    """The conditions of a form that ask whether floats are equal."""
    compared = (n for n in topological(form) if n.op in ("eq", "ne"))
    return [n for n in compared if any(s["kind"] == "tensor" for s in n.tensors)]


def jumps(formula: Expr) -> list[Expr]:
    """What a formula jumps at the zeros of, where that has to be computed and so is rounded: the difference of what is
    compared, and what the row of a function says."""
    found: list[Expr] = []
    for node in topological(formula):
        row = FUNCTIONS.get(node.op)
        way = operator.sub if node.op in COMPARISONS else row and row.jumps
        if way and node.tensors and any(a.args for a in node.args):
            found.append(way(*node.args))
    return found


def equalities(region: Expr) -> tuple[tuple[Expr, Fraction], ...]:
    """The tensors of floats that a region compares with numbers for equality, and these: k and 1 of `k == 1`.

    Only numbers that float32 has: no float32 is truly 0.3.
    """
    ways = (pair for n in equal(region) for pair in (n.args, n.args[::-1]))
    found = ((s, v.number) for s, v in ways if s.op == "sym" and s["kind"] == "tensor")
    fine = ((s, n) for s, n in found if n is not None and abs(n) < _LARGE and FLOAT32.round(float(n)) == n)
    return tuple(islice(dict.fromkeys(fine), _MOST_SIDES))


def sides(conditions: Sequence[Expr], points: Sequence[Environment]) -> list[Environment]:
    """Values of the conditions' tensors for each way in which these come out together, as some of the points have
    them; ordinary ones, if there are such."""
    points = sorted(points, key=_is_extreme)
    tensors = frozenset[Expr]().union(*(c.tensors for c in conditions))
    outcomes = zip(*map(Simulation(points, FLOAT64), machine(conditions)), strict=True)
    found: dict[tuple[bool, ...], Environment] = {}
    for outcome, point in zip(outcomes, points, strict=True):
        found.setdefault(tuple(map(bool, outcome)), {s: point[s] for s in tensors})
    return list(found.values())[:_MOST_SIDES]


def _is_extreme(point: Environment) -> bool:
    return any(not isinstance(v, bool | str) and v and not _LEAST <= abs(v) <= _MOST for v in point.values())
