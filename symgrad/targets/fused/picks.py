"""Elements that tensors of whole numbers pick from a row, and what is put at such a place of it.

What is picked of a formula is the formula of what is picked of its operands: one element of each for a row, read where
the row begins. What is put at a place is there for each element, and 0 wherever it is not at that place: nothing as
long as a row is made for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import COMPARISONS, Expr, make
from symgrad.ir.traversal import rebuild, substitute, topological
from symgrad.ops.functions import FUNCTIONS
from symgrad.ops.tensors.extent import extent
from symgrad.ops.tensors.sizes import number_of
from symgrad.targets.fused.terms import (
    FIRST,
    PICKS,
    PLACE,
    ROW_OPS,
    Unsupported,
    Value,
    View,
    is_total,
    is_whole,
    length,
    of_elements,
)

if TYPE_CHECKING:
    from symgrad.targets.fused.elements import Elements

__all__ = ["PICKED", "known_before", "require_rows", "require_whole_numbers", "with_values_of_rows"]

_EXACT = 2**24  # up to which float32 has every whole number


def _gather(elements: Elements, node: Expr) -> Value:
    """One element of each row."""
    x, index = node.args
    value, place = elements.plain(x), _place(elements, node, index, x)
    return Value(_picked(value.expr, place))


def _lookup(elements: Elements, node: Expr) -> Value:
    """For each row an element of a tensor that is as long as a row, and the same for all."""
    x, index = node.args
    if len(extent(x).dims) != 1 or not extent(x).exact:
        raise Unsupported("an index of whole slices")
    value, places = elements.plain(x), elements.plain(index)
    return Value(_picked(value.expr, _checked(elements, elements.lifted(places.expr, (-1,)), x)), dropped=True)


def _put(elements: Elements, node: Expr) -> Value:
    """A value for each row at one place of it."""
    value, index, like = node.args
    return Value(_at(_place(elements, node, index, like), elements.plain(value).expr))


def _add_slices(elements: Elements, node: Expr) -> Value:
    """The sum over all rows of a value at one place of each."""
    value, index, like = node.args
    if len(extent(like).dims) != 1 or not extent(like).exact:
        raise Unsupported("an index of whole slices")
    own, places = elements(value), elements.plain(index)
    if own.total or own.dims is not None:
        raise Unsupported("a reduction of a reduction")
    place = _checked(elements, elements.lifted(places.expr, (-1,)), like)
    own_expr = own.expr if own.dropped else elements.lifted(own.expr, (-1,))
    if elements.rank is None:
        return Value(_at(place, own_expr), dims=(), like=like)
    return Value(_at(place, own_expr), dims=tuple(range(-elements.rank, -1)))


def _arange(elements: Elements, node: Expr) -> Value:
    """The place of each element in its row."""
    _require_length(elements, number_of(node.args[0]))
    return Value(PLACE)


PICKED: dict[str, Callable[[Elements, Expr], Value]] = {
    "gather": _gather,
    "take_along": _gather,
    "lookup": _lookup,
    "put_along": _put,
    "add_along": _put,
    "add_slices": _add_slices,
    "arange": _arange,
}
_SEVERAL = "an index of several elements of a row"


def _place(elements: Elements, node: Expr, index: Expr, of: Expr) -> Expr:
    """The place that an index names in each row of a tensor."""
    if elements.places(node["dim"]) != (-1,) or extent(index).dims[-1:] != (1,):
        raise Unsupported(_SEVERAL)
    return _checked(elements, elements.plain(index).expr, of)


def _checked(elements: Elements, index: Expr, of: Expr) -> Expr:
    """A whole number that is to be a place in the rows of a tensor: who runs the pass asks whether it is."""
    if extent(of).exact or not of.is_differential:  # a tangent is as long as its tensor
        _require_length(elements, extent(of).dims[-1] if extent(of).dims else None)
    return make("row_place", index)


def _require_length(elements: Elements, size: object) -> None:
    if size is None or size == 1:
        raise Unsupported("a row of unknown length")
    elements.lengths.add(size)


def _at(place: Expr, value: Expr) -> Expr:
    return truth.where(truth.compare("eq", PLACE, place), value, ex.ZERO)


def _picked(value: Expr, place: Expr) -> Expr:
    """A value for each element of a row, at one place of it."""
    mapped: dict[Expr, Expr] = {PLACE: place}
    for node in of_elements(value):
        if node in mapped or node.op in ROW_OPS or is_whole(node):
            mapped.setdefault(node, node)
        elif node.op == "sym" and node.tensors:
            own = make("row_at", node, place)
            mapped[node] = truth.compare("ne", own, ex.ZERO) if node.is_boolean else own
        else:
            mapped[node] = rebuild(node, [mapped[a] for a in node.args]) if node.args else node
    return mapped[value]


def with_values_of_rows(roots: Sequence[Expr], of_row: Collection[Expr]) -> list[Expr]:
    """What is dear and made of tensors that have one element for each row, and of reductions, computed where a row
    begins: `of_row` are these tensors."""
    order = topological(*roots)
    row: dict[Expr, bool] = {}
    for node in order:
        inside = [a for a in node.args if not a.is_static]
        row[node] = node in of_row or node.op in ROW_OPS or (bool(inside) and all(row[a] for a in inside))
    picked = {leaf: make(FIRST, leaf) for leaf in of_row}
    mapped: dict[Expr, Expr] = {}

    def chosen(value: Expr) -> Expr:
        dear = row[value] and not value.is_boolean and any(n.op in FUNCTIONS for n in of_elements(value))
        return substitute(value, picked) if dear else mapped[value]

    for node in order:
        follows = row[node] and node.op not in ROW_OPS
        mapped[node] = node if follows or not node.args else rebuild(node, map(chosen, node.args))
    return [chosen(root) for root in roots]


# ------------------------------------------------------------------------------------------------ what passes need
def known_before(order: Iterable[Expr]) -> tuple[Expr, ...]:
    """What is known of a row before it is read: whole numbers, the places that they name, what stands there,
    and what tensors have one element of."""
    order = list(order)
    return (
        *sorted(filter(is_whole, order), key=lambda n: n.name),
        *(n for op in (*PICKS, FIRST) for n in order if n.op == op),
    )


def require_rows(lengths: Iterable[object], shape: Sequence[View], roots: Sequence[Expr]) -> None:
    """Raise Unsupported where a place is one of a row of another length, or nothing is done with a whole row."""
    wanted, own = set(lengths), {length(view) for view in shape} - {1}
    if not wanted:
        return
    if own != wanted:
        raise Unsupported("rows of several lengths")
    order = topological(*roots, leaves=[n for n in topological(*roots) if n.op in PICKS])
    if not any(n.op == "sym" and n.tensors and not is_whole(n) and n is not PLACE and not is_total(n) for n in order):
        raise Unsupported("single elements of rows alone")


def require_whole_numbers(order: Iterable[Expr]) -> None:
    """Raise Unsupported where whole numbers are calculated with: in float32 they are not exact beyond `_EXACT`.

    Compared with a smaller number, and as a place in a row that is not longer, they are what they are.
    """
    whole: set[Expr] = set()
    for node in order:
        if is_whole(node):
            whole.add(node)
        elif node.op == "where" and whole & {*node.args[1:]}:
            if not all(a in whole or _is_small(a) for a in node.args[1:]):
                raise Unsupported(_CALCULATED)
            whole.add(node)
        elif whole & {*node.args}:
            compared = node.op in COMPARISONS and all(a in whole or a is PLACE or _is_small(a) for a in node.args)
            if node.op not in PICKS and not (compared and len(whole & {*node.args}) == 1):
                raise Unsupported(_CALCULATED)


_CALCULATED = "a calculation with whole numbers"


def _is_small(value: Expr) -> bool:
    """Whether a number is exact in float32; hyperparameters are asked when a pass is called."""
    if value.number is not None:
        return value.number.denominator == 1 and abs(value.number) < _EXACT
    return value.op == "sym" and value["kind"] == "int"
