"""What torch's reductions along the last dimension are for a pass: formulas of sums and extrema of a row."""

from __future__ import annotations

from collections.abc import Callable

from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import Expr, make
from symgrad.ops.tensors.reductions import as_number
from symgrad.targets.fused.terms import ROW, Unsupported

__all__ = ["NORMALISED", "REDUCED"]


def _row(op: str) -> Callable[[Expr, Expr], Expr]:
    return lambda value, node: make(op, value)


def _row_mean(value: Expr, node: Expr) -> Expr:
    return make("row_sum", value) / ROW


def _row_var(value: Expr, node: Expr) -> Expr:
    """Torch divides by no negative number of degrees of freedom."""
    centred = value - make("row_sum", value) / ROW
    correction = as_number(node["correction"])
    freedom: Expr = ROW - correction
    if correction not in (ex.ZERO, ex.ONE):  # a row has one element at least
        freedom = make("maximum", freedom, ex.ZERO)
    return make("row_sum", centred**2) / freedom


def _row_norm(value: Expr, node: Expr) -> Expr:
    if node["p"] != 2:
        raise Unsupported("a norm of another order than 2")
    return ex.sqrt(make("row_sum", value**2))


def _row_logsumexp(value: Expr, node: Expr) -> Expr:
    largest = make("row_max", value)
    shift = truth.where(truth.compare("lt", make("abs", largest), ex.OO), largest, ex.ZERO)  # inf - inf is no number
    return make("log", make("row_sum", make("exp", _whole(value) - shift))) + shift


def _row_softmax(value: Expr) -> Expr:
    weight = make("exp", _whole(value) - make("row_max", value))
    return weight / make("row_sum", weight)


def _whole(value: Expr) -> Expr:
    """A value from which the largest of its row is taken: of the largest itself nothing must be left."""
    return make("held", value) if value.op == "add" else value


def _row_log_softmax(value: Expr) -> Expr:
    below = make("held", _whole(value) - make("row_max", value))  # exact near the largest; what is large goes first
    return below - make("log", make("row_sum", make("exp", below)))


NORMALISED: dict[str, Callable[[Expr], Expr]] = {"softmax": _row_softmax, "log_softmax": _row_log_softmax}

REDUCED: dict[str, Callable[[Expr, Expr], Expr]] = {
    "sum": _row("row_sum"),
    "mean": _row_mean,
    "amax": _row("row_max"),
    "amin": _row("row_min"),
    "var": _row_var,
    "norm": _row_norm,
    "logsumexp": _row_logsumexp,
}
