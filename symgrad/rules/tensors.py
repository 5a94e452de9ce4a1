"""Tensor-level formulas that overflow, cancel or divide by zero, as the operations that do not.

These are applied to whole formulas before they are divided into pointwise regions. They hold for any broadcasting: what
is reduced may be written with `keepdim` or be lined up by an `unsqueeze`.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from symgrad.ir import expr as ex
from symgrad.ir.expr import HALF, Expr, make
from symgrad.ir.traversal import rebuild
from symgrad.ops.tensors import TENSOR_OPS, Ref
from symgrad.rules.rule import Transformation

__all__ = ["TENSORS"]

_OVERFLOWS = "exponentials overflow"
_LOG_OF_NOTHING = -1000  # of which the exponential is 0 in any dtype


def log_of_sum(node: Expr) -> Expr | None:
    """log(sum(exp(a))), log(mean(exp(a))) and log(softmax(a))."""
    (operand,) = node.args
    if operand.op == "softmax":
        return make("log_softmax", operand.args[0], **dict(operand.attrs))
    reduced = _below(operand)
    if reduced.op not in ("sum", "mean") or reduced.args[0].op != "exp":
        return None
    result = _placed(_logsumexp(reduced), operand)
    if reduced.op == "mean":
        result = result - make("log", make("count", reduced.args[0], dim=reduced["dim"]))
    return result


def log_of_mixture(node: Expr) -> Expr | None:
    """log(c * softmax(a) + d * softmax(b)) of positive numbers c and d."""
    factor, total = ex.split_coefficient(node.args[0])
    terms = [ex.split_coefficient(term) for term in total.args] if total.op == "add" else []
    if len(terms) != 2 or any(part.op != "softmax" or factor * c <= 0 for c, part in terms):
        return None
    (first, _), (second, _) = terms
    logs = [make("log_softmax", part.args[0], **dict(part.attrs)) for _, part in terms]
    logs[1] = logs[1] + _log(second / first)
    return make("logaddexp", *logs) + _log(factor * first)


def _log(value: Fraction) -> Expr:
    return ex.ZERO if value == 1 else make("log", ex.num(value))


def entropy_of_softmax(node: Expr) -> Expr | None:
    """softmax(a) * log(softmax(a)), which is 0 where an exponential vanishes, as are its derivatives."""
    first, second = node.args
    if first is not second or first.op != "softmax":
        return None
    logs = make("log_softmax", first.args[0], **dict(first.attrs))
    return first * make("clamp", logs, ex.num(_LOG_OF_NOTHING), ex.OO)


def normalised_exponential(node: Expr) -> Expr | None:
    """exp(a) / sum(exp(b)) as softmax or, where a is not b, as exp(a - logsumexp(b))."""
    for under in node.args:
        if under.op != "pow" or under.args[1] is not ex.num(-1):
            continue
        total = _below(under.args[0])
        if total.op != "sum" or total.args[0].op != "exp":
            continue
        for over in node.args:
            if over.op == "exp":
                rest = ex.mul(*(f for f in node.args if f is not over and f is not under))
                return rest * _quotient(over, total, under.args[0])
    return None


def _quotient(over: Expr, total: Expr, placed: Expr) -> Expr:
    if over is total.args[0] and _lines_up(placed):
        return make("softmax", over.args[0], dim=total["dim"])
    return make("exp", over.args[0] - _placed(_logsumexp(total), placed))


def less_logsumexp(node: Expr) -> Expr | None:
    """a - logsumexp(a) along one dimension."""
    for term in node.args:
        coefficient, placed = ex.split_coefficient(term)
        inner = _below(placed)
        if coefficient == -1 and inner.op == "logsumexp" and _lines_up(placed) and inner.args[0] in node.args:
            rest = ex.add(*(t for t in node.args if t is not term and t is not inner.args[0]))
            return rest + make("log_softmax", inner.args[0], dim=inner["dim"])
    return None


def shifted_softmax(node: Expr) -> Expr | None:
    """softmax(a - amax(a)) and the like along one dimension, which is softmax(a): it takes the maximum itself."""
    for _, rest in _shifts(node):
        return make(node.op, rest, **dict(node.attrs))
    return None


def shifted_logsumexp(node: Expr) -> Expr | None:
    """amax(a) + logsumexp(a - amax(a)) and the like, which is logsumexp(a)."""
    for term in node.args:
        factor, placed = ex.split_coefficient(term)
        inner = _below(placed)
        for shift, rest in _shifts(inner) if inner.op == "logsumexp" else ():
            share, row = ex.split_coefficient(shift)
            if placed is inner and inner["keepdim"] is not True:
                row = row.args[0] if row.op == "unsqueeze" else make("squeeze", row, dim=(inner["dim"],))
            added = -factor * share * row
            if added in node.args:
                others = ex.add(*(t for t in node.args if t is not term and t is not added))
                return others + factor * _placed(make("logsumexp", rest, **dict(inner.attrs)), placed)
    return None


def _shifts(node: Expr) -> Iterator[tuple[Expr, Expr]]:
    """What is one number for each row along the dimension of `node`, as a term of its operand, and the others' sum.

    It is a reduction of these, so that they have the shape of the operand.
    """
    (operand,) = node.args
    for term in operand.args if operand.op == "add" else ():
        _, placed = ex.split_coefficient(term)
        placed = placed.args[0] if placed.op == "detach" else placed
        inner = _below(placed)
        rest = ex.add(*(t for t in operand.args if t is not term))
        is_row = dict(inner.attrs).keys() >= {"dim", "keepdim"} and inner.args[0] is rest
        if is_row and inner["dim"] == node["dim"] and _lines_up(placed):
            yield term, rest


def root_of_squares(node: Expr) -> Expr | None:
    """sqrt(sum(a**2)), whose derivative is 0 / 0 where a is zero."""
    base, exponent = node.args
    total = _below(base)
    if exponent.number is None or abs(exponent.number) != HALF.number or total.op != "sum":
        return None
    squared = total.args[0]
    if squared.op != "pow" or squared.args[1] is not ex.num(2):
        return None
    norm = make("norm", squared.args[0], p=2, dim=total["dim"], keepdim=total["keepdim"])
    return ex.power(_placed(norm, base), 2 * exponent)


def mean_of_squares_less_square(node: Expr) -> Expr | None:
    """mean(a**2) - mean(a)**2, where the means cancel."""
    for term in node.args:
        if term.op != "mean" or term.args[0].op != "pow" or term.args[0].args[1] is not ex.num(2):
            continue
        operand = term.args[0].args[0]
        square = ex.power(make("mean", operand, **dict(term.attrs)), 2)
        if -square in node.args:
            rest = ex.add(*(t for t in node.args if t is not term and t is not -square))
            return rest + make("var", operand, dim=term["dim"], correction=0, keepdim=term["keepdim"])
    return None


def inner_unsqueeze(node: Expr) -> Expr | None:
    """f(a)[..., None] as f(a[..., None]), so that the formula is one region with what it lines up with."""
    (inner,) = node.args
    varying = [a for a in inner.args if not a.is_static]
    if inner.op in TENSOR_OPS or inner.op == "where" or len(varying) != 1:
        return None
    return rebuild(inner, [a if a.is_static else make("unsqueeze", a, **dict(node.attrs)) for a in inner.args])


# ------------------------------------------------------------------------------------------------ places
def _logsumexp(reduced: Expr) -> Expr:
    return make("logsumexp", reduced.args[0].args[0], dim=reduced["dim"], keepdim=reduced["keepdim"])


def _below(node: Expr) -> Expr:
    """A reduction that an `unsqueeze` lines up with what it was reduced from."""
    return node.args[0] if node.op == "unsqueeze" else node


def _placed(reduced: Expr, like: Expr) -> Expr:
    """Another reduction at the place of `like`."""
    return make("unsqueeze", reduced, **dict(like.attrs)) if like.op == "unsqueeze" else reduced


def _lines_up(placed: Expr) -> bool:
    """Whether a reduction along one dimension still has it, with size 1."""
    reduced = _below(placed)
    dim = reduced["dim"]
    if not isinstance(dim, int | Ref) or isinstance(dim, bool):
        return False
    if placed.op == "unsqueeze":
        return isinstance(dim, int) and dim < 0 and tuple(placed["dim"]) == (dim,) and reduced["keepdim"] is False
    return reduced["keepdim"] is True


TENSORS = (
    Transformation("inner-unsqueeze", "unsqueeze", inner_unsqueeze, "one region"),
    Transformation("log-sum-exp", "log", log_of_sum, _OVERFLOWS),
    Transformation("log-mixture", "log", log_of_mixture, "one that vanishes would have no logarithm"),
    Transformation("entropy", "xlogy", entropy_of_softmax, "the logarithm of 0 has no slope"),
    Transformation("softmax", "mul", normalised_exponential, _OVERFLOWS),
    Transformation("log-softmax", "add", less_logsumexp, "one pass, and nothing cancels"),
    *(Transformation("shift", op, shifted_softmax, "a row is shifted once") for op in ("softmax", "log_softmax")),
    Transformation("shift", "add", shifted_logsumexp, "a row is shifted once"),
    Transformation("norm", "pow", root_of_squares, "the derivative is 0 / 0 at zero"),
    Transformation("variance", "add", mean_of_squares_less_square, "the means cancel"),
)
