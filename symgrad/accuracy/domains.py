"""What declared domains decide: conditions, and functions with a kink, of a variable that lies on one side of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from fractions import Fraction

from symgrad.analysis.signs import positive, same_sign
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import COMPARISONS, FALSE, MINUS_ONE, ONE, OO, TRUE, ZERO, Expr, make
from symgrad.ir.traversal import rebuild, substitute, topological
from symgrad.spec.interval import Interval

__all__ = ["within_branches", "within_domains"]


def within_domains(root: Expr, domains: Mapping[Expr, Interval]) -> Expr:
    """`root` for variables inside their domains: `x == 0` is false and `abs(x)` is x where x is positive.

    Comparisons with 0 are those of the simplest value of the same sign: `a * expm1(x / a) > 0` is `x > 0` for positive
    a; and a choice between 0 and a value by its sign is a clamp.
    """
    mapped: dict[Expr, Expr] = {}
    for node in topological(root):
        args = [mapped[a] for a in node.args]
        if node.op == "where" and args[0].is_static and not (node.args[0].is_static or args[0] in (TRUE, FALSE)):
            args[0] = node.args[0]  # a choice of Python's would have the shape of one branch
        mapped[node] = _decided(rebuild(node, args), domains)
    return mapped[root]


def within_branches(root: Expr) -> Expr:
    """`root` with choices that are numbers in the branch they stand in: where(c, 0, x * where(c, y, 2)) as
    where(c, 0, 2 * x).

    Derivatives are made of such choices. Where they stand, arithmetic may lead from 0 to no number.
    """
    mapped: dict[Expr, Expr] = {}
    for node in topological(root):
        args = [mapped[a] for a in node.args]
        if node.op == "where" and not node.is_static:
            args[1:] = [_in_branch(a, args[0], way) for way, a in enumerate(args[1:], start=1)]
        mapped[node] = rebuild(node, args)
    return mapped[root]


def _in_branch(branch: Expr, condition: Expr, way: int) -> Expr:
    own = [n for n in topological(branch) if n.op == "where" and n.args[0] is condition]
    numbers = {n: n.args[way] for n in own if n.args[way].number is not None}
    return substitute(branch, numbers) if numbers else branch


def _decided(node: Expr, domains: Mapping[Expr, Interval]) -> Expr:
    if not node.args:
        return node
    if node.op in _SPECIAL:
        return _SPECIAL[node.op](node, domains)
    if node.op in COMPARISONS and node.args[1] is ZERO and not node.is_static:
        node = truth.compare(node.op, same_sign(node.args[0], domains), ZERO)
    if node.op == "abs" and positive(node.args[0], domains):
        return node.args[0]
    if node.op in COMPARISONS and node.args[1] is ZERO and _is_positive(node.args[0], domains):
        return TRUE if node.op in ("ne", "gt", "ge") else FALSE
    if node.op in COMPARISONS and node.args[1].number is not None:
        return _compared(node, domains)
    if not node.args or node.args[0] not in domains:
        return node
    x, domain = node.args[0], domains[node.args[0]]
    if node.op in _BY_SIGN and domain.lower >= 0 and not (domain.lower == 0 and not domain.lower_open):
        return _BY_SIGN[node.op][0] or x
    if node.op in _BY_SIGN and domain.upper <= 0 and not (domain.upper == 0 and not domain.upper_open):
        return _BY_SIGN[node.op][1] or -x
    return node


def _is_positive(value: Expr, domains: Mapping[Expr, Interval]) -> bool:
    """Whether a value cannot be 0: a positive quotient, or a length of which one side is not 0."""
    if value.op == "hypot":
        return any(positive(side, domains) for side in value.args)
    return value.op in ("mul", "pow") and positive(value, domains)


# For a positive and for a negative variable; None stands for its size.
_BY_SIGN: dict[str, tuple[Expr | None, Expr | None]] = {"abs": (None, None), "sign": (ONE, MINUS_ONE)}


def _chosen(node: Expr, domains: Mapping[Expr, Interval]) -> Expr:
    """A choice by a bound as a clamp, or so turned that what is no number passes."""
    for rewritten in (_clamped(node, domains), _clamped_size(node, domains), _passing(node)):
        if rewritten is not None:
            return rewritten
    return node


def _clamped(node: Expr, domains: Mapping[Expr, Interval]) -> Expr | None:
    """where(x > 0, 0, x) as clamp(x, max=0), and its mirror image.

    Only where the bound is taken strictly beyond it, as a clamp's gradient has it, and what is no number passes.
    """
    condition, then, otherwise = node.args
    if condition.op not in _BOUNDS or condition.is_static or otherwise.is_static:
        return None
    value, bound = condition.args
    same = otherwise is value and then is bound
    if then is not bound or not (same or (bound is ZERO and _alike(otherwise, value, domains))):
        return None
    low, high = (-OO, bound) if condition.op == "gt" else (bound, OO)
    return make("clamp", otherwise, low, high) if bound.is_static else None


def _clamped_size(node: Expr, domains: Mapping[Expr, Interval]) -> Expr | None:
    """where(abs(x) <= k, c * x, c * k * sign(x)) as c * clamp(x, -k, k), for a positive number k.

    A clamp's gradient has the closed interval, and what is no number passes it.
    """
    condition, then, otherwise = node.args
    if condition.op != "le" or condition.args[0].op != "abs" or not positive(condition.args[1], domains):
        return None
    (x,), bound = condition.args[0].args, condition.args[1]
    scale = ex.mul(then, ex.power(x, -1))
    if not (scale.is_static and bound.is_static) or otherwise is not ex.mul(scale, bound, make("sign", x)):
        return None
    return ex.mul(scale, make("clamp", x, -bound, bound))


def _passing(node: Expr) -> Expr | None:
    """where(abs(x) < k, f(x), sign(x)) as where(abs(x) >= k, sign(x), f(x)): sign makes a number of what is none."""
    condition, then, otherwise = node.args
    if condition.op not in _ORDERS or condition.is_static:
        return None
    compared = [x for x in condition.tensors if _reads(condition.args[0], x) or _reads(condition.args[1], x)]
    if not all(_reads(then, x) and x in otherwise.tensors and not _reads(otherwise, x) for x in compared):
        return None
    return make("where", truth.compare(truth.NEGATED[condition.op], *condition.args), otherwise, then)


def _reads(root: Expr, x: Expr) -> bool:
    """Whether a value is no number where x is none: x is not only looked at for its sign or order."""
    signs = frozenset(n for n in topological(root) if n.op == "sign" or n.is_boolean)
    return root not in signs and x in topological(root, leaves=signs)


def _length(node: Expr, domains: Mapping[Expr, Interval]) -> Expr:
    """hypot(k * x, n) as k * hypot(x, n / k) for scalars, so that k meets other scalars."""
    for side, bound in (node.args, node.args[::-1]):
        if bound.is_static and side.op == "mul":
            scale = ex.mul(*(f for f in side.args if f.is_static))
            rest = ex.mul(side, ex.power(scale, -1))
            if scale is not ONE and positive(scale, domains):
                return ex.mul(scale, make("hypot", rest, ex.mul(bound, ex.power(scale, -1))))
    return node


def _scaled_power(node: Expr, domains: Mapping[Expr, Interval]) -> Expr:
    """(k * hypot(x, n))**-2 as hypot(x, n)**-2 / k**2, so that k meets other scalars."""
    base, exponent = node.args
    n = exponent.number
    if base.op != "mul" or n is None or n.denominator != 1 or not any(f.op == "hypot" for f in base.args):
        return node
    scale = ex.mul(*(f for f in base.args if f.is_static))
    return ex.mul(ex.power(scale, exponent), ex.power(ex.mul(base, ex.power(scale, -1)), exponent))


def _alike(value: Expr, other: Expr, domains: Mapping[Expr, Interval]) -> bool:
    """Whether two values have the same sign."""
    return same_sign(value, domains) is same_sign(other, domains)


_BOUNDS = ("gt", "lt")
_ORDERS = ("gt", "lt", "ge", "le")
_SPECIAL = {"where": _chosen, "hypot": _length, "pow": _scaled_power}


def _compared(node: Expr, domains: Mapping[Expr, Interval]) -> Expr:
    """A comparison of numbers with a variable, a multiple of it, or this and another number."""
    left, right = node.args
    terms = left.terms
    constant = sum((t.number for t in terms if t.number is not None), Fraction(0))
    rest = [ex.split_coefficient(t) for t in terms if t.number is None]
    if len(rest) != 1 or rest[0][1] not in domains or right.number is None:
        return node
    ((factor, x),) = rest
    quotient = (right.number - constant) / factor
    if abs(quotient) > sys.float_info.max:
        return node
    domain, bound = domains[x], float(quotient)
    above = domain.lower > bound or (domain.lower == bound and domain.lower_open)
    below = domain.upper < bound or (domain.upper == bound and domain.upper_open)
    if not above and not below:
        return node
    greater = above == (factor > 0)
    return TRUE if node.op in ("ne", "gt" if greater else "lt", "ge" if greater else "le") else FALSE
