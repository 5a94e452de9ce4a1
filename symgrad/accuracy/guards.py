"""Guards: where a branch on tensors is dead, functions in it get a harmless argument."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from symgrad.accuracy.evaluate import FAR, FLOAT32, Environment, is_near
from symgrad.accuracy.machine import machine, part_that_is_read
from symgrad.accuracy.simulate import Simulation
from symgrad.differentiate.modes import local_partials
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import rebuild, substitute, topological
from symgrad.ir.truth import where
from symgrad.ops.functions import FUNCTIONS
from symgrad.ops.tensors import TENSOR_OPS, data_arguments, interval
from symgrad.spec.interval import Interval

Ranges = Mapping[Expr, Interval]
_NOWHERE: Ranges = {}


def guard(root: Expr, points: Sequence[Environment], infinite: Collection[Expr] = (), far: Ranges = _NOWHERE) -> Expr:
    """Give functions in a dead branch a harmless argument, where they or their slopes could be non-finite there.

    `where` alone hides a dead branch from the value, but the derivative of the result would multiply its 0 by inf.
    What is infinite on purpose, as a masked score, is 0 in a dead branch: the symbols that are `infinite`, and choices.
    Polynomials that overflow where the tensors in `far` are large or near zero are held too, though no function in
    them fails.
    Conditions have no derivative, and nothing in them is guarded.
    """
    guarded: dict[Expr, Expr] = {}
    values = Simulation(points, FLOAT32)
    for node in topological(root):
        args = [a if a.is_boolean else guarded[a] for a in node.args]
        if node.op == "where" and node.args[0].tensors:
            condition = args[0]
            args[1] = _guard_branch(args[1], condition, True, values, infinite, far)
            args[2] = _guard_branch(args[2], condition, False, values, infinite, far)
        guarded[node] = rebuild(node, args)
    return guarded[root]


def _guard_branch(
    branch: Expr, condition: Expr, taken: bool, values: Simulation, infinite: Collection[Expr], far: Ranges
) -> Expr:
    mapped: dict[Expr, Expr] = {}
    held: dict[Expr, Expr] = {}  # the arguments that are harmless now
    for node in topological(branch):
        args = [a if a.is_boolean else mapped[a] for a in node.args]
        if node.op == "add":
            args = _with_what_is_read(node, args, held)
        safe = _safe_argument(node)
        if safe is not None and _can_fail(node, condition, taken, values):
            k = 0 if node.op == "pow" else len(args) - 1
            bounded = _bounded(args[k], condition, taken)
            trial = rebuild(node, (*args[:k], bounded, *args[k + 1 :]))
            if bounded is args[k] or _can_fail(trial, condition, taken, _with_bounds(values, condition)):
                bounded = _alive(args[k], condition, taken, safe)
            args[k] = held[node.args[k]] = bounded
        mapped[node] = rebuild(node, args)
        if node is not branch and (node in infinite or _is_masked(node)):
            mapped[node] = _alive(mapped[node], condition, taken, ex.ZERO)
    is_finite = not far or not _overflows(mapped[branch], condition, taken, values, far)
    return mapped[branch] if is_finite else _held_inside(branch, mapped, condition, taken, values, far)


def _with_what_is_read(total: Expr, terms: list[Expr], held: Mapping[Expr, Expr]) -> list[Expr]:
    """The terms of a sum with a part that another one reads as it is read: a - 1 in a - log1p(a - 1) - 1.

    It is added up first, and would not be if it were another value than what is read.
    """
    found = part_that_is_read(total)
    if found is None or found[0] not in held:
        return terms
    part, sign, _ = found
    own = [ex.mul(sign, t) for t in (part.args if part.op == "add" else (part,))]
    return [ex.mul(sign, held[part]), *(t for a, t in zip(total.args, terms, strict=True) if a not in own)]


def _held_inside(
    branch: Expr, mapped: Mapping[Expr, Expr], condition: Expr, taken: bool, values: Simulation, far: Ranges
) -> Expr:
    """A branch with its variable held on its side of the condition, or all tensors where that is not enough; as it was
    `mapped` if neither helps."""
    variable, inside = _held(condition, taken)
    if variable in mapped:
        bounded = substitute(mapped[branch], {mapped[variable]: ex.make("clamp", mapped[variable], *inside)})
        if not _overflows(bounded, condition, taken, values, far):
            return bounded
    alive = {s: _alive(s, condition, taken, ex.ONE) for s in branch.tensors if s["kind"] == "tensor"}
    of_ones = substitute(branch, alive)
    return mapped[branch] if _overflows(of_ones, condition, taken, values, far) else of_ones


def _alive(value: Expr, condition: Expr, taken: bool, otherwise: Expr) -> Expr:
    """The value where its branch is taken."""
    return where(condition, value, otherwise) if taken else where(condition, otherwise, value)


def may_be_infinite(root: Expr) -> bool:
    """Whether a value is infinite on purpose somewhere: a choice of infinity, or what sums, products and tensor
    operations that are not bounded make of one."""
    found: set[Expr] = set()
    for node in topological(root):
        within = interval(node)
        bounded = within is not None and abs(within.lower) < math.inf and abs(within.upper) < math.inf
        passes = node.op in ("add", "mul") or (node.op in TENSOR_OPS and not bounded)
        if _is_masked(node) or (passes and any(a in found for a in data_arguments(node))):
            found.add(node)
    return root in found


def _is_masked(node: Expr) -> bool:
    return node.op == "where" and any(a in (ex.OO, -ex.OO) for a in node.args[1:])


def _bounded(argument: Expr, condition: Expr, taken: bool) -> Expr:
    """The argument with the variable of an inequality held on the side of the branch, in sums and products.

    A clamp is cheaper than a choice, and where the branch is taken it changes nothing.
    """
    variable, inside = _held(condition, taken)
    if condition.args[:1] != (variable,):
        return argument
    held = ex.make("clamp", variable, *inside)

    def hold(node: Expr) -> Expr:
        if node is variable:
            return held
        return rebuild(node, map(hold, node.args)) if node.op in ("add", "mul") else node

    return hold(argument)


def _held(condition: Expr, taken: bool) -> tuple[Expr, tuple[Expr, Expr]]:
    """The variable of an inequality, and the bounds that it has where the branch is taken; of abs(2*v) < c it is v.

    No bounds where the condition is another one, or the branch lies on both sides of zero.
    """
    everywhere = (-ex.OO, ex.OO)
    if condition.op not in _SIDES or not condition.args[1].is_static or condition.is_static:
        return condition, everywhere
    variable, bound = condition.args
    below = _SIDES[condition.op] == taken
    symmetric = variable.op == "abs" and below
    number, inner = ex.split_coefficient(variable.args[0] if symmetric else variable)
    if symmetric:
        return inner, (-bound / abs(number), bound / abs(number))
    return inner, (-ex.OO, bound / number) if below == (number > 0) else (bound / number, ex.OO)


_SIDES = {"lt": True, "le": True, "gt": False, "ge": False}  # whether the variable is below where it holds


def _overflows(branch: Expr, condition: Expr, taken: bool, values: Simulation, far: Ranges) -> bool:
    """Whether something in a branch is not finite at some point where it is dead: a polynomial far from its interval,
    of which the derivative would be 0 times infinity."""
    conditions = frozenset(n for n in topological(branch) if n.is_boolean)
    parts = [n for n in topological(branch, leaves=conditions) if not (n.is_static or n.is_boolean or n.op == "sym")]
    near = [p for p in values.points if all(isinstance(v, (bool, str)) or abs(v) <= FAR for v in p.values())]
    values = Simulation([*near, *_stretched(near, far)], FLOAT32)
    try:
        holds, *columns = map(values, machine([condition, *parts]))
    except KeyError:  # reads the result of a tensor operation, which points do not give
        return False
    dead = [k for k, taking in enumerate(holds) if bool(taking) != taken]
    return any(not abs(column[k]) < math.inf for column in columns for k in dead)


def _with_bounds(values: Simulation, condition: Expr) -> Simulation:
    """The values at the points, and at those where the variable of a condition is at its bound."""
    variable, bound = condition.args
    if variable.op != "sym" or bound.number is None:
        return values
    added = [{**p, variable: float(bound.number)} for p in values.points[:4]]
    return Simulation([*values.points, *added], FLOAT32)


def may_need_guard(node: Expr) -> bool:
    """Whether a function is one that must not see every argument."""
    return _safe_argument(node) is not None


def _safe_argument(node: Expr) -> Expr | None:
    """A harmless value for the critical argument of a function of tensors, if it has a critical one."""
    if node.is_static:
        return None
    if node.op == "pow":
        n = node.args[1].number
        harmless = n is not None and n.denominator == 1 and n > 0
        return None if harmless or node.args[0].is_static else ex.ONE
    row = FUNCTIONS.get(node.op)
    return ex.num(row.safe) if row is not None and row.safe is not None else None


def _can_fail(node: Expr, condition: Expr, taken: bool, values: Simulation) -> bool:
    """Whether the function or its slope is non-finite at some point where the branch is dead.

    Also where the condition alone is that of such a point: a mask says nothing of what it masks. And where all but
    what the function reads is, or is much larger: of `(w > 0) | (x + y > 1)` no sample may be false for a large x.
    """
    if not values.points:
        return False
    try:
        failing, dead = _failing_and_dead(node, condition, taken, values)
        if failing & dead:
            return True
        points, some = values.points, sorted(dead)[:: max(1, len(dead) // _MOST_CROSSED)]
        pairs = [(points[k], points[d]) for k in sorted(failing)[:_MOST_CROSSED] for d in some]
        beside = condition.symbols - node.symbols
        crossed = [{**p, **{s: other[s] for s in condition.symbols}} for p, other in pairs]
        crossed += [{**p, **{s: _scaled(o[s], by) for s in beside}} for p, o in pairs for by in (1.0, _LARGE)]
        failing, dead = _failing_and_dead(node, condition, taken, Simulation(crossed, FLOAT32))
    except KeyError:  # reads the result of a tensor operation, which points do not give
        return True
    return bool(failing & dead)


def _failing_and_dead(node: Expr, condition: Expr, taken: bool, values: Simulation) -> tuple[set[int], set[int]]:
    """The points at which a function or its slope is not finite, and those at which a branch is not taken."""
    holds, *columns = map(values, machine([condition, node, *local_partials(node)]))
    numbers = [c for c in columns if not any(isinstance(v, bool) for v in c)]
    failing = {k for c in numbers for k, value in enumerate(c) if not abs(value) < math.inf}
    return failing, {k for k, taking in enumerate(holds) if bool(taking) != taken}


def _scaled(value: Any, by: float) -> Any:
    return value if isinstance(value, bool | str) else value * by


_LARGE = 1e9  # numbers that people have, and whose fifth power overflows
_SMALL = 1e-9  # as the fifth power of its reciprocal does


def _stretched(points: Sequence[Environment], ranges: Ranges) -> list[Environment]:
    """Some ordinary points with one of the tensors large or near zero, where its range has such numbers."""
    sizes = [(s, size) for s, own in ranges.items() for size in (_LARGE, -_LARGE, _SMALL) if size in own]
    ordinary = [p for p in points if all(isinstance(v, bool | str) or (v != 0 and is_near(v)) for v in p.values())]
    return [{**p, s: size} for p in ordinary[:_MOST_CROSSED] for s, size in sizes]


_MOST_CROSSED = 4  # points where a branch is taken and fails, and dead ones whose condition they are given
