"""The judge: whether emitted values, gradients and tangents are those of the formula as written.

SymPy and a differential field (`reading.py`) differentiate the formula as written, not our own rules. In each regime (a
cell in which every comparison has one answer, so that abs, sign, minima, maxima and choices are open) the difference to
the emitted form is shown to be 0 in a rational function field (`field.py`): that is a proof. Where the field does not
tell, 50 digits at many points decide: the two agree there, or one point refutes the claim. Kinks themselves, where
regimes meet, are not part of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath as mp

from symgrad.accuracy.evaluate import Environment, Exact
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.traversal import rebuild, topological
from symgrad.symbolic.rational_functions import Undecided
from symgrad.symbolic.reading import is_zero
from symgrad.symbolic.to_sympy import NotConvertible

__all__ = ["Claim", "Verdict", "judge"]

_BITS = 1400
_STEP = mp.mpf(2) ** -300  # of a central difference, whose error is its square
_DIGITS = mp.mpf(10) ** -50
_APPROXIMATES = mp.mpf(2) ** -48  # what approximations to the precision of float64 may be off
_MOST_REGIMES = 64
_MOST_POINTS = 40  # that are evaluated to 50 digits
_FIRST = 4  # of them


@dataclass(frozen=True)
class Claim:
    """That `emitted` is `formula`, or with `by` the derivative of it times `factor`.

    `forward`: of whole tensors, the derivative in the direction `factor`, rather than the gradient of the formula
    weighted by it. `detached` are pairs of a symbol in the formula and that whose value it has, without its derivative.
    """

    subject: str
    formula: Expr
    emitted: Expr
    by: Expr | None = None
    factor: Expr = ex.ONE
    forward: bool = False
    detached: tuple[tuple[Expr, Expr], ...] = ()


@dataclass(frozen=True)
class Verdict:
    """What became of a claim.

    `outcome` is `proven`, `partly` (in some regimes), `agrees` (at `points`, to 50 digits), `approximates` (by design,
    to the precision of float64), `refuted` or `unjudged`, for the reason in `detail`.
    """

    subject: str
    outcome: str
    detail: str = ""
    regimes: int = 0
    points: int = 0

    @property
    def text(self) -> str:
        """One line about it."""
        places = {0: "", 1: ""}.get(self.regimes, f" in {self.regimes} regimes")
        lines = {
            "proven": f"proven{places}",
            "partly": f"agrees at {self.points} points to 50 digits",
            "agrees": f"agrees at {self.points} points to 50 digits",
            "approximates": f"agrees at {self.points} points to the precision of float64, as an approximation",
            "refuted": "refuted",
            "unjudged": "not judged",
        }
        return lines[self.outcome] + (f" ({self.detail})" if self.detail else "")


def judge(claim: Claim, points: Sequence[Environment], *, proof: bool = True) -> Verdict:
    """Prove a claim, or decide it at some of the `points`, a few in each regime; without `proof` only that."""
    if claim.by is None and claim.emitted is claim.formula:
        return Verdict(claim.subject, "proven")
    points = [{**p, **{own: p[of] for own, of in claim.detached if of in p}} for p in points]
    usable = _Points(claim, _spread(claim, points))
    if usable.refuted is not None:
        return Verdict(claim.subject, "refuted", usable.refuted)
    count = len(usable.points)
    if not count:
        return Verdict(claim.subject, "unjudged", "undefined at all points")
    if usable.approximates:
        return Verdict(claim.subject, "approximates", "", 0, count)
    if not proof or claim.detached:
        return Verdict(claim.subject, "agrees", "something is detached" if claim.detached else "", 0, count)
    try:
        done, regimes = _proven(claim, usable.points)
    except (Undecided, NotConvertible) as error:
        return Verdict(claim.subject, "agrees", str(error), 0, count)
    if done < regimes:
        return Verdict(claim.subject, "partly", f"proven in {done} of {regimes} regimes", regimes, count)
    return Verdict(claim.subject, "proven", "", regimes, count)


def _spread(claim: Claim, points: Sequence[Environment]) -> list[Environment]:
    """Points of every regime in turn, as many as are evaluated to 50 digits."""
    try:
        cells = [inside for _, inside in _regimes((claim.formula, claim.emitted, claim.factor), points)]
    except Undecided:
        cells = [list(points)]
    longest = max(map(len, cells), default=0)
    return [cell[k] for k in range(longest) for cell in cells if k < len(cell)][: max(_MOST_POINTS, len(cells))]


class _Points:
    """The points at which both sides of a claim have values, and what they say."""

    def __init__(self, claim: Claim, points: Sequence[Environment]) -> None:
        self.points: list[Environment] = []
        self.refuted: str | None = None
        self.approximates = False
        for some in (points[:_FIRST], points[_FIRST:]):  # most of what is wrong is wrong anywhere
            if some and self.refuted is None:
                self._compare(claim, some)

    def _compare(self, claim: Claim, points: Sequence[Environment]) -> None:
        emitted = Exact(points, _BITS)(claim.emitted)
        true = _true_values(claim, points)
        with mp.workprec(_BITS):
            for point, own, value in zip(points, emitted, true, strict=True):
                if value is None or not mp.isfinite(value):
                    continue
                self.points.append(point)
                error = abs(own - value) if mp.isfinite(own) else mp.inf
                scale = max(abs(value), mp.mpf(10) ** -60)
                if error > scale * _APPROXIMATES:
                    self.refuted = _place(point, own, value)
                    return
                if error > scale * _DIGITS:
                    self.approximates = True


def _place(point: Environment, own: Any, value: Any) -> str:
    at = ", ".join(f"{s.name} = {v if isinstance(v, bool | str) else float(v)!r}" for s, v in point.items())
    return f"at {at}: {mp.nstr(own, 8)} where {mp.nstr(value, 8)} is right"


def _true_values(claim: Claim, points: Sequence[Environment]) -> list[Any]:
    """The formula at the points, or its derivative by differences; None beside a kink."""
    if claim.by is None:
        return Exact(points, _BITS)(claim.formula)
    by = claim.by
    with mp.workprec(_BITS):
        steps = [max(abs(p[by]), mp.mpf(1)) * _STEP for p in points]
        sides = [[{**p, by: p[by] + way * h} for p, h in zip(points, steps, strict=True)] for way in (1, -1, 2, -2)]
        ahead, behind, far_ahead, far_behind = (Exact(side, _BITS)(claim.formula) for side in sides)
        factor = Exact(points, _BITS)(claim.factor)
        found: list[Any] = []
        for a, b, c, d, h, f in zip(ahead, behind, far_ahead, far_behind, steps, factor, strict=True):
            near, far = (a - b) / (2 * h), (c - d) / (4 * h)
            one_sided = abs((c - a) - (b - d)) > abs(near) * h * mp.mpf(2) ** -30 + mp.mpf(2) ** -900
            kink = one_sided and _is_kink(a, b, c, d)
            smooth = mp.isfinite(near) and not kink and not _is_jump(near, far)
            found.append(near * f if smooth and mp.isfinite(far) else None)
    return found


def _is_jump(near: Any, far: Any) -> bool:
    """Whether two quotients of differences differ by more than their errors: the value jumps between the points."""
    return bool(abs(near - far) > (abs(near) + abs(far)) * mp.mpf(2) ** -100 + mp.mpf(2) ** -400)


def _is_kink(a: Any, b: Any, c: Any, d: Any) -> bool:
    """Whether the slopes on both sides differ by more than curvature makes."""
    right, left = c - a, b - d
    return bool(abs(right - left) > (abs(right) + abs(left)) * mp.mpf(2) ** -100)


# ---------------------------------------------------------------------------------------------- proofs
def _proven(claim: Claim, points: Sequence[Environment]) -> tuple[int, int]:
    """In how many regimes the claim was proven, and in how many points lie; raises Undecided if in none."""
    regimes = list(_regimes((claim.formula, claim.emitted, claim.factor), points))
    if len(regimes) > _MOST_REGIMES:
        raise Undecided(f"{len(regimes)} regimes")
    done = 0
    reason = Undecided("nothing to prove")
    for decisions, inside in regimes:
        steps: dict[Expr, Expr] = {}
        sides = tuple(_opened(e, decisions, steps) for e in (claim.formula, claim.emitted, claim.factor))
        try:
            _prove_regime(sides, claim.by, _with_steps(inside, steps))
            done += 1
        except (Undecided, NotConvertible) as error:
            reason = Undecided(str(error))
    if not done:
        raise reason
    return done, len(regimes)


def _with_steps(points: Sequence[Environment], steps: Mapping[Expr, Expr]) -> Sequence[Environment]:
    """The points with the values that the steps have there; a step of steps comes after these."""
    for value, own in steps.items():
        points = [{**p, own: number} for p, number in zip(points, Exact(points, 300)(value), strict=True)]
    return points


def _prove_regime(sides: Sequence[Expr], by: Expr | None, points: Sequence[Environment]) -> None:
    """Prove a claim in a regime, else for each choice of the signs of the variables; raises Undecided."""
    try:
        if _is_equal(sides, by, points):
            return
    except Undecided:
        pass
    for part in _by_signs(points):
        if not _is_equal(sides, by, part):
            raise Undecided("two functions are related in a way that is not known")


def _by_signs(points: Sequence[Environment]) -> list[list[Environment]]:
    """The points by the signs of all variables, on which roots and powers depend."""
    found: dict[tuple[int, ...], list[Environment]] = {}
    for point in points:
        signs = tuple(0 if isinstance(v, bool | str) else _sign(v) for v in point.values())
        found.setdefault(signs, []).append(point)
    return list(found.values())


def _is_equal(sides: Sequence[Expr], by: Expr | None, points: Sequence[Environment]) -> bool:
    if not points:
        raise Undecided("a regime without a point")
    formula, emitted, factor = sides

    def values(of: Expr | None) -> list[Any]:
        return [mp.mpf(0 if of is None else p[of]) for p in points]

    with mp.workprec(200):
        return is_zero(formula, emitted, values, by, factor)


# What functions of the sign of their argument are in a regime.
_OF_SIGN: Mapping[str, Callable[[int, Expr], Expr]] = {
    "abs": lambda way, value: value if way > 0 else -value,
    "sign": lambda way, value: ex.num(way),
    "relu": lambda way, value: value if way > 0 else ex.ZERO,
    "heaviside": lambda way, value: ex.ONE if way > 0 else ex.ZERO,
}
# Whether a comparison holds, by the sign of the difference.
_COMPARISONS: Mapping[str, Callable[[int], bool]] = {
    "lt": lambda way: way < 0,
    "le": lambda way: way <= 0,
    "gt": lambda way: way > 0,
    "ge": lambda way: way >= 0,
    "eq": lambda way: way == 0,
    "ne": lambda way: way != 0,
}
_STEPS = ("floor", "ceil", "round")
_WHOLE = ("int", "int_tensor", "bool", "bool_tensor")


def _kinks(root: Expr) -> Iterator[Expr]:
    """What the comparisons and kinks of a formula are about: each is 0 where two regimes meet."""
    for node in topological(root):
        if node.op in _OF_SIGN:
            yield node.args[0]
        elif node.op in ("maximum", "minimum", *_COMPARISONS) and not any(a.op == "text" for a in node.args):
            yield node.args[0] - node.args[1]
        elif node.op == "clamp":
            yield node.args[0] - node.args[1]
            yield node.args[0] - node.args[2]
            yield node.args[1] - node.args[2]
        elif node.is_boolean and node.op == "sym":
            yield node


def _regimes(
    roots: Sequence[Expr], points: Sequence[Environment]
) -> Iterator[tuple[dict[Expr, int], list[Environment]]]:
    """The regimes in which points lie: the sign of each kink, and the points."""
    kinks = list(dict.fromkeys(k for root in roots for k in _kinks(root) if k.symbols))
    exact = Exact(points, 300)
    columns = [exact(k) for k in kinks]
    found: dict[tuple[int, ...], list[Environment]] = {}
    for i, point in enumerate(points):
        signs = tuple(_sign(column[i]) for column in columns)
        found.setdefault(signs, []).append(point)
    found = {signs: inside for signs, inside in found.items() if not _on_kink(dict(zip(kinks, signs, strict=True)))}
    if not found:
        raise Undecided("all points lie on kinks")
    for signs, inside in found.items():
        yield dict(zip(kinks, signs, strict=True)), inside


def _on_kink(decisions: Mapping[Expr, int]) -> bool:
    """Whether something is 0 that is not 0 in all of a cell, as the winner of a maximum less that maximum is.

    A value of integers alone makes a cell: nothing is differentiated by them.
    """
    for kink, sign in decisions.items():
        if not sign and not kink.is_boolean and not all(s["kind"] in _WHOLE for s in kink.symbols):
            try:
                if _opened(kink, decisions, {}) is not ex.ZERO:
                    return True
            except Undecided:
                return True
    return False


def _sign(value: Any) -> int:
    if isinstance(value, bool):
        return 1 if value else 0
    return int(value > 0) - int(value < 0)


def _opened(root: Expr, decisions: Mapping[Expr, int], steps: dict[Expr, Expr]) -> Expr:
    """A formula in one regime: without choices and kinks; steps such as floor are whole numbers that stay there."""

    def sign(value: Expr) -> int:
        if value in decisions:
            return decisions[value]
        if not value.symbols:
            return _sign(Exact([{}], 300)(value)[0])
        raise Undecided("a kink that is not known")

    mapped: dict[Expr, Expr] = {}
    for node in topological(root):
        args = [mapped[a] for a in node.args]
        mapped[node] = _opened_node(node, args, sign, steps)
    return mapped[root]


def _opened_node(node: Expr, args: list[Expr], sign: Any, steps: dict[Expr, Expr]) -> Expr:
    op, raw = node.op, node.args
    if op == "sym" and node.is_boolean:
        return ex.TRUE if sign(node) else ex.FALSE
    if op in _OF_SIGN:
        return _OF_SIGN[op](sign(raw[0]), args[0])
    if op in ("maximum", "minimum"):
        return args[0] if (sign(raw[0] - raw[1]) > 0) == (op == "maximum") else args[1]
    if op == "clamp":
        low_above_high = sign(raw[1] - raw[2]) > 0
        above, below = sign(raw[0] - raw[2]) > 0, sign(raw[0] - raw[1]) < 0
        return args[2] if low_above_high or above else args[1] if below else args[0]
    if op in _COMPARISONS and not any(a.op == "text" for a in raw):
        return ex.TRUE if _COMPARISONS[op](sign(raw[0] - raw[1])) else ex.FALSE
    if op in _STEPS:
        return _same_step(args[0], steps) or _step(rebuild(node, args), steps)
    if op == "remainder":
        return args[0] - args[1] * _step(make("floor", args[0] / args[1]), steps)
    if op == "fmod":
        return args[0] - args[1] * _step((args[0] - rebuild(node, args)) / args[1], steps)
    if op == "finite":
        return args[0]
    return rebuild(node, args) if args else node


def _step(value: Expr, steps: dict[Expr, Expr]) -> Expr:
    """The symbol that stands for a whole number."""
    return steps.setdefault(value, symbol(f"step{len(steps)}", "int"))


def _same_step(value: Expr, steps: Mapping[Expr, Expr]) -> Expr | None:
    """The step that a value is, written otherwise: rounding leaves it as it is."""

    def no_points(of: Expr | None) -> Sequence[Any]:
        raise Undecided("it depends on a sign")

    for own in steps.values():
        try:
            if is_zero(value, own, no_points):
                return own
        except (Undecided, NotConvertible):
            continue
    return None
