"""Tensor-level formulas that overflow, cancel or divide by zero, as the operations that do not.

These are applied to whole formulas before they are divided into pointwise regions. They hold for any broadcasting: what
is reduced may be written with `keepdim` or be lined up by an `unsqueeze`.
"""

from __future__ import annotations

from fractions import Fraction

from symgrad.ir import expr as ex
from symgrad.ir.expr import HALF, Expr, make
from symgrad.ir.traversal import rebuild
from symgrad.ops.tensors import TENSOR_OPS, Ref
from symgrad.rules.rule import Transformation

__all__ = ["TENSORS"]

_OVERFLOWS = "exponentials overflow"


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
    Transformation("softmax", "mul", normalised_exponential, _OVERFLOWS),
    Transformation("log-softmax", "add", less_logsumexp, "one pass, and nothing cancels"),
    Transformation("norm", "pow", root_of_squares, "the derivative is 0 / 0 at zero"),
    Transformation("variance", "add", mean_of_squares_less_square, "the means cancel"),
)
