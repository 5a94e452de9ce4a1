"""Losses of class labels, by the element that a label picks: a one-hot tensor is never made."""

from __future__ import annotations

from typing import Any

from symgrad.ir.expr import NAN, ONE, ZERO, Expr, make, text
from symgrad.ir.truth import compare, where
from symgrad.ops.tensors.extent import ShapeConflict, extent, same
from symgrad.ops.tensors.indexing import lookup
from symgrad.ops.tensors.reductions import total
from symgrad.ops.tensors.row import Attribute, Ref, TensorOp, is_number
from symgrad.ops.tensors.shaping import squeeze, unsqueeze

MEAN = text("mean")


def _class_dim(input: Expr, target: Expr, name: str) -> int:
    """The dimension of classes, from the end: the second one, or the only one. Raises ValueError."""
    known, labels = extent(input), extent(target)
    if not known.exact or not known.dims:
        raise ValueError(f"{name} needs a declared shape of its input, whose second dimension is that of classes")
    rank = len(known.dims)
    dim = -1 if rank == 1 else 1 - rank
    if labels.exact:
        rest = [d for k, d in enumerate(known.dims) if k - rank != dim]
        what = f"{name} of {known} with labels of {labels}"
        if len(rest) != len(labels.dims):
            raise ShapeConflict(f"{what}: there is one label for each element beside the classes")
        for one, other in zip(rest, labels.dims, strict=True):
            same(one, other, what)
    return dim


def _reduced(loss: Expr, weight: Expr, reduction: Expr) -> Expr:
    """The losses as a mean by their weights, as a sum, or as they are."""
    whole = total(loss, None, keepdim=False)
    weights = total(weight, None, keepdim=False)
    nothing = compare("eq", weights, 0)  # the mean is no number then, but every gradient is 0
    mean = where(nothing, NAN, whole / weights)
    if reduction.op == "text":
        found = {"mean": mean, "sum": whole, "none": loss}.get(reduction["value"])
        if found is None:
            raise ValueError("the reduction is 'mean', 'sum' or 'none'")
        return found
    others = where(compare("eq", reduction, text("sum")), whole, loss)
    return where(compare("eq", reduction, text("mean")), mean, others)


def _of_labels(
    logs: Expr, target: Expr, weight: Expr | None, ignored: Any, reduction: Expr, smoothing: Expr, dim: int
) -> Expr:
    """The loss of log-probabilities with labels of which those that are `ignored` count for nothing."""
    if isinstance(ignored, Ref):
        raise ValueError("'ignore_index' is a whole number")
    counted = compare("ne", target, ignored)
    label = where(counted, target, ZERO)
    picked = squeeze(make("gather", logs, unsqueeze(label, dim), dim=dim), dim)
    share = where(counted, ONE, ZERO) if weight is None else where(counted, lookup(weight, label, 0), ZERO)
    loss = where(counted, -picked if weight is None else -picked * lookup(weight, label, 0), ZERO)
    if smoothing is not ZERO:
        own = logs if weight is None else logs * _along_classes(weight, dim)
        even = -total(own, dim, keepdim=False) / make("count", logs, dim=(dim,))
        loss = (ONE - smoothing) * loss + smoothing * where(counted, even, ZERO)
    return _reduced(loss, share, reduction)


def _along_classes(weight: Expr, dim: int) -> Expr:
    return unsqueeze(weight, *range(dim + 1, 0)) if dim < -1 else weight


def _operands(weight: tuple[Expr, ...]) -> Expr | None:
    return weight[0] if weight and not is_number(weight[0]) else None


def cross_entropy(
    input: Expr,
    target: Expr,
    *weight: Expr,
    ignore_index: Any = -100,
    reduction: Expr = MEAN,
    label_smoothing: Expr = ZERO,
) -> Expr:
    """torch's cross-entropy of logits with labels."""
    dim = _class_dim(input, target, "cross_entropy")
    logs = make("log_softmax", input, dim=dim)
    return _of_labels(logs, target, _operands(weight), ignore_index, reduction, label_smoothing, dim)


def nll_loss(input: Expr, target: Expr, *weight: Expr, ignore_index: Any = -100, reduction: Expr = MEAN) -> Expr:
    """torch's negative log-likelihood of log-probabilities with labels."""
    dim = _class_dim(input, target, "nll_loss")
    return _of_labels(input, target, _operands(weight), ignore_index, reduction, ZERO, dim)


_LABELS = (Attribute("ignore_index", "int", -100), Attribute("reduction", "word", MEAN))

ROWS = (
    TensorOp(
        "cross_entropy",
        operands=("input", "target", "weight"),
        attributes=(*_LABELS, Attribute("label_smoothing", "number", ZERO)),
        optional=1,
        integer=frozenset({1}),
        definition=cross_entropy,
    ),
    TensorOp(
        "nll_loss",
        operands=("input", "target", "weight"),
        attributes=_LABELS,
        optional=1,
        integer=frozenset({1}),
        definition=nll_loss,
    ),
)
