"""What the values of a pass are to what it writes: outputs, gradients summed to a tensor's shape, tangents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import topological
from symgrad.ops.tensors.extent import SCALAR
from symgrad.ops.tensors.shapes import extent
from symgrad.targets.fused.elements import Elements
from symgrad.targets.fused.model import Result
from symgrad.targets.fused.terms import ELEMENTS, ROW_OPS, ROWS, Unsupported, Value, View, belongs_to_row
from symgrad.targets.fused.totals import FINISHED, is_finished, named_total, over_pass, spread

__all__ = ["gradient_of", "like_output", "output_of", "tangent_of"]


def gradient_of(elements: Elements, name: str, place: int, own: Expr, gradients: Sequence[Expr]) -> Result:
    """The gradient of a tensor: summed to its shape, or a value for each row where the tensor has one for each."""
    apart = _gradient_of_number(elements, name, place, own, gradients) or _gradient_of_rows(
        elements, name, place, own, gradients
    )
    if apart is not None:
        return apart
    values, gone = zip(*(_summed(elements, g, own) for g in gradients), strict=True)
    dims = set(gone)
    if len(dims) > 1 or any(v.total or v.dropped or v.kept or v.like not in (None, own) for v in values):
        raise Unsupported("sums over different dimensions")
    view = View(own)
    if dims != {()}:
        view = elements.views[elements.lifted_leaf(elements.leaf(own), dims.pop())]
    value = _added([v.expr for v in values])
    along_row = any(-1 in (v.dims or ()) for v in values)
    if extent(own).dims[-1:] == (1,) and not along_row and any(n.op in ROW_OPS for n in topological(value)):
        value = _under_row_sum(value)
    return Result(name, value, place, view.dims)


def _gradient_of_number(
    elements: Elements, name: str, place: int, own: Expr, gradients: Sequence[Expr]
) -> Result | None:
    """The gradient of a tensor without dimensions, where each term is a sum over all elements, or over all rows."""
    found = [elements(g) for g in gradients] if extent(own) == SCALAR else []
    if not any(v.total or elements.is_number(v, sums=True) for v in found):
        return None
    found = [_over_everything(elements, v, own) for v in found]
    if len({v.dropped for v in found}) > 1:
        raise Unsupported("a reduction of a reduction")
    of_rows = found[0].dropped
    parts = [v.expr / (ROWS if of_rows else ELEMENTS) if v.total == "mean" else v.expr for v in found]
    return Result(name, _added(parts), place, total="sum", row="row" if of_rows else "")


def _over_everything(elements: Elements, value: Value, own: Expr) -> Value:
    """What a tensor without dimensions gets, as a sum over all elements of the pass or over all rows."""
    if elements.is_number(value, sums=True):
        return spread(elements, value)
    if value.total:
        return value if value.dropped else over_pass(elements, value)
    if value.dims != () or value.like is not own:
        raise Unsupported("sums over different dimensions")
    return Value(value.expr, total="sum")


def _gradient_of_rows(elements: Elements, name: str, place: int, own: Expr, gradients: Sequence[Expr]) -> Result | None:
    """The gradient of a tensor with one element for each row, where nothing is summed."""
    shape, known = elements.shape, extent(own)
    if not shape or not known.exact or known.dims != shape[:-1]:
        return None
    found = [elements(g) for g in gradients]
    plain = [v.dims is None and not v.total for v in found]
    if not any(plain):
        return None
    if not all(plain):
        raise Unsupported("sums over different dimensions")
    parts = [v.expr if v.dropped else elements.lifted(v.expr, (-1,)) for v in found]
    return Result(name, _added(parts), place, row="row")


def _summed(elements: Elements, gradient: Expr, own: Expr) -> tuple[Value, tuple[int, ...]]:
    """The value of a gradient, and the summed dimensions that are gone: not those that it has again with size 1.

    Those to the left of all that the tensor has are gone wherever it broadcasts.
    """
    if gradient.op == "unsqueeze":
        value = elements(gradient.args[0])
        if value.dims is not None and value.like is None and set(gradient["dim"]) <= set(value.dims):
            return value, tuple(d for d in value.dims if d not in gradient["dim"])
    value = elements(gradient)
    dims, known = value.dims or (), extent(own)
    if elements.rank is not None and known.exact and dims == tuple(range(-elements.rank, -len(known.dims))):
        value, dims = replace(value, dims=()), ()
    return replace(value, kept=False), () if value.kept else dims


def _under_row_sum(value: Expr) -> Expr:
    """What is summed along the row to the gradient of a tensor with one element for each row."""
    if value.op == "row_sum":
        return value.args[0]
    if value.op == "add":
        return ex.add(*map(_under_row_sum, value.args))
    summed = [f for f in value.args if any(n.op in ROW_OPS for n in topological(f))]
    if value.op != "mul" or len(summed) != 1:
        raise Unsupported("a gradient of what belongs to a row")
    return ex.mul(_under_row_sum(summed[0]), *(f for f in value.args if f is not summed[0]))


def output_of(name: str, value: Value) -> Result:
    """What a value is to the output that it is."""
    if value.dims is not None:
        if value.like is not None or value.scaled:
            raise Unsupported("what follows a sum")
        return Result(name, value.expr, reduced=value.dims, kept=value.kept)
    row = "row" if value.dropped else "kept" if not value.total and belongs_to_row(value.expr) else ""
    return Result(name, value.expr, total=value.total, row=row)


def like_output(
    elements: Elements, output: Result, name: str, terms: Sequence[Expr], leaf: Expr | None = None
) -> Result:
    """The sum of terms that have the shape of an output, or are summed to that of `leaf`, which has it."""
    values = [elements(t) for t in terms]
    if output.reduced:
        if any((v.dims, v.kept, v.scaled) != (output.reduced, output.kept, False) for v in values):
            raise Unsupported("sums over different dimensions")
        return Result(name, _added([v.expr for v in values]), reduced=output.reduced, kept=output.kept)
    if any(v.dims or v.like not in (None, leaf) for v in values):
        raise Unsupported("sums over different dimensions")
    if output.total:
        if len({v.dropped for v in values}) > 1 or (leaf is None and not all(v.total for v in values)):
            raise Unsupported("a reduction of a reduction")
        for value in values:
            if not value.dropped:
                elements.require_elements(value.expr)
        parts = [v.expr / ELEMENTS if v.total == "mean" else v.expr for v in values]
        return Result(name, _added(parts), total="sum", row="row" if any(v.dropped for v in values) else "")
    if any(v.total for v in values) or (not output.row and any(v.dropped for v in values)):
        raise Unsupported("a reduction of a reduction")
    parts = [v.expr for v in values]
    if output.row == "row" and not all(v.dropped for v in values):
        raise Unsupported("a value for each element of a row")
    if output.row:
        of_row = [v.dropped or belongs_to_row(v.expr) for v in values]
        if leaf is None and not all(of_row):
            raise Unsupported("a value for each element of a row")
        parts = [t if own else make("row_sum", t) for t, own in zip(parts, of_row, strict=True)]
    return Result(name, _added(parts), row=output.row)


def tangent_of(elements: Elements, output: Result, name: str, terms: Sequence[Expr]) -> tuple[Result, Value]:
    """The tangent of an output, also where it follows from sums."""
    if output.total != FINISHED:
        found = like_output(elements, output, name, terms)
        return found, Value(found.value)
    values = [named_total(elements, v) if v.total else v for v in map(elements, terms)]
    value = Value(_added([v.expr for v in values]))
    if not is_finished(value.expr):  # but an equal part of it for each element
        value = spread(elements, value)
        return Result(name, value.expr, total=value.total, row="row" if value.dropped else ""), value
    return Result(name, value.expr, total=FINISHED), value


def _added(terms: Sequence[Expr]) -> Expr:
    """What several outputs or tensors give, each added up by itself as in eager operations: it may cancel."""
    return ex.add(*(make("held", t) if t.op == "add" and len(terms) > 1 else t for t in terms))
