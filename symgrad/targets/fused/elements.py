"""From a formula with tensor operations to what one pass computes for each element.

A pass runs over the elements of one shape, row by row. Every tensor that it reads broadcasts to that shape, some by a
view with more dimensions; what it writes has that shape, or is summed over the dimensions in which a tensor broadcasts.
So shapes disappear: `unsqueeze` and `expand` become views of the operands, and what multiplies a sum moves under it.
Reductions along the last dimension stay, as values that belong to a whole row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.traversal import rebuild, substitute, topological
from symgrad.ops.tensors import TENSOR_OPS, data_arguments
from symgrad.ops.tensors.extent import SCALAR, Dim, Extent, extent
from symgrad.ops.tensors.shapes import shape_sources
from symgrad.targets.fused.picks import PICKED
from symgrad.targets.fused.row_forms import NORMALISED, REDUCED
from symgrad.targets.fused.terms import (
    ELEMENTS,
    NOT_LAST,
    PLACE,
    ROW,
    ROW_OPS,
    ROWS,
    Unsupported,
    Value,
    View,
    is_total,
    is_whole,
    length,
    of_elements,
    operands_of,
    size_of,
)
from symgrad.targets.fused.totals import named_total

__all__ = ["Elements"]


class Elements:
    """Lowers the formulas of one pass; `views` collects the leaves that stand for viewed tensors."""

    def __init__(
        self,
        known: Mapping[Expr, Expr],
        rank: int | None,
        of_rows: frozenset[Expr] = frozenset(),
        shape: tuple[Dim, ...] | None = None,
        primals: Mapping[Expr, Expr] = MappingProxyType({}),
        *,
        one_shape: bool = False,
        single: bool = False,
    ) -> None:
        self.known = known  # saved values and the tensors they are read from
        self.rank = rank
        self.shape = shape  # of the pass, as far as it is declared
        self.one_shape = one_shape  # whether all tensors of undeclared shape have that of the pass
        self.single = single  # whether rows have one element each, which their sums and extrema are
        self.totals: dict[Expr, Value] = {}  # sums over everything, by the symbols that stand for them
        self.primals = primals  # what tangents and cotangents have the shapes of
        self.of_rows = of_rows  # tensors that have one element for each row, and no last dimension
        self.views: dict[Expr, View] = {PLACE: View(PLACE)}
        self.lent: set[Expr] = set()  # leaves of which a pass has the shape, whether it reads them or not
        self.lengths: set[Any] = set()  # which a row has to have: those of what is picked from
        self._done: dict[Expr, Value] = {}

    def __call__(self, root: Expr) -> Value:
        """The value of a formula. Raises Unsupported."""
        pending = [root]
        while pending:
            node = pending[-1]
            below = () if node in self.known or node.is_static else data_arguments(node)
            missing = [a for a in below if a not in self._done]
            if missing:
                pending += missing
                continue
            self._done[pending.pop()] = self._done.get(node) or self._lower(node)
        return self._done[root]

    def plain(self, node: Expr) -> Value:
        """The value of a formula that has one for each element, or for each row in the last dimension."""
        value = self(node)
        if value.dropped or value.total or value.dims is not None:
            raise Unsupported("a view of a reduction")
        return value

    def leaf(self, tensor: Expr, dims: tuple[int, ...] = ()) -> Expr:
        """The symbol of a tensor as the pass reads it."""
        own = self.known.get(tensor, tensor)
        found = own if not dims else symbol(f"{own.name}[{','.join(map(str, dims))}]", own["kind"])
        self.views[found] = View(own, dims)
        return found

    def _lower(self, node: Expr) -> Value:
        if node in self.known or (node.op == "sym" and node.tensors):
            of_row = self.known.get(node, node) in self.of_rows
            return Value(self.leaf(node, (-1,) if of_row else ()), dropped=of_row)
        if node.is_static:
            return Value(node)
        rule = _RULES.get(node.op)
        if rule is not None:
            return rule(self, node)
        if node.op in TENSOR_OPS:
            raise Unsupported(node.op)
        return self._pointwise(node)

    def _pointwise(self, node: Expr) -> Value:
        operands = [self._done[a] for a in node.args]
        total = next((v for v in operands if v.total), None)
        if total is not None:
            if node.op == "mul" and all(v is total or self.is_number(v) for v in operands):
                return replace(total, expr=ex.mul(*(v.expr for v in operands)))
            operands = [named_total(self, v) if v.total else v for v in operands]
        summed = [v for v in operands if v.dims is not None]
        if summed:
            return self._over_sum(node, operands, summed[0])
        dropped = any(v.dropped for v in operands)
        if dropped:
            operands = [v if v.dropped else Value(self.lifted(v.expr, (-1,)), True) for v in operands]
        return Value(rebuild(node, [v.expr for v in operands]), dropped)

    def is_number(self, value: Value, *, sums: bool = False) -> bool:
        """Whether a value is one for all elements: of hyperparameters and of tensors without dimensions, with `sums`
        also of sums over everything."""
        of_all = not (value.dropped or value.total or value.dims is not None or PLACE in value.expr.symbols)
        if not of_all or any(n.op in ROW_OPS or (is_total(n) and not sums) for n in topological(value.expr)):
            return False
        return all(self.extent(self.views[s].tensor) == SCALAR for s in operands_of(value.expr))

    def _over_sum(self, node: Expr, operands: list[Value], total: Value) -> Value:
        """What is linear in a sum over the dimensions of a broadcast, under that sum."""
        inside = [v for v in operands if v.dims is not None]
        if any((v.dims, v.like, v.kept) != (total.dims, total.like, total.kept) for v in inside):
            raise Unsupported("sums over different dimensions")
        scaled = any(v.scaled for v in inside)
        if node.op == "add" and len(inside) == len(operands):
            if total.like is None:
                self._require_equal_lengths([v.expr for v in inside], total.dims or ())
            return replace(total, expr=rebuild(node, [v.expr for v in operands]), scaled=scaled)
        if node.op == "mul" and len(inside) == 1:
            assert total.dims is not None
            others = [v.expr for v in operands if v is not total]
            if not all(o.is_static for o in others):
                if total.kept:
                    raise Unsupported("what follows a sum")
                others, scaled = [self.lifted(o, total.dims) for o in others], True
            return replace(total, expr=ex.mul(total.expr, *others), scaled=scaled)
        raise Unsupported("what follows a sum")

    def _require_equal_lengths(self, summed: list[Expr], dims: tuple[int, ...]) -> None:
        """Raise Unsupported where one of these may broadcast to another along the dimensions of their sum."""
        found = [frozenset(operands_of(value)) for value in summed]
        if len(set(found)) > 1:
            for dim in dims:
                lengths = [{length(self.views[leaf], dim) for leaf in leaves} - {1} for leaves in found]
                known = set().union(*lengths)
                if len(known) != 1 or None in known or not all(lengths):
                    raise Unsupported("sums over different lengths")

    def extent(self, value: Expr) -> Extent:
        """The extent of a value; that of a tangent or a cotangent is its primal's."""
        return extent(substitute(value, {s: self.like(s) for s in value.symbols if s in self.primals}))

    def like(self, tensor: Expr) -> Expr:
        """What has the shape of a tensor that is read, and tells it."""
        return self.primals.get(tensor, tensor)

    def lifted(self, value: Expr, dims: tuple[int, ...]) -> Expr:
        """A value of the remaining dimensions, broadcast to those that `dims` are added to."""
        leaves = operands_of(value)
        of_row = PLACE in value.symbols or any(n.op in ROW_OPS for n in topological(value))
        if of_row or any(self.views[s].dims for s in leaves):
            raise Unsupported("a view of a view")
        return substitute(value, {s: self.lifted_leaf(s, dims) for s in leaves})

    def lifted_leaf(self, leaf: Expr, dims: tuple[int, ...]) -> Expr:
        """A leaf of the remaining dimensions as a view that has those of `dims` too, each of size 1."""
        tensor = self.views[leaf].tensor
        known = self.extent(tensor)
        if known == SCALAR and (tensor in self.primals or not tensor.is_differential):
            return leaf
        if dims == (-1,):
            return self.leaf(tensor, dims)
        if not known.exact:
            raise Unsupported("a view of a tensor of unknown rank")
        return self.leaf(tensor, _within(dims, len(known.dims)))

    # ------------------------------------------------------------------------------------------ operations
    def _boundary(self, node: Expr) -> Value:
        """What is computed once: held apart, for products and sums that merge would compute it anew in each."""
        value = self._done[node.args[0]]
        return replace(value, expr=make("held", value.expr)) if value.expr.op in ("add", "mul", "pow") else value

    def _detach(self, node: Expr) -> Value:
        """What has no derivative, of which a pass is told: the value, apart from others that would cancel it."""
        value = self._done[node.args[0]]
        return replace(value, expr=make("held", value.expr))

    def _unsqueeze(self, node: Expr) -> Value:
        value, dims = self._done[node.args[0]], node["dim"]
        if value.dropped and dims == (-1,):
            return Value(value.expr)
        if value.dropped or value.total or value.dims is not None:
            raise Unsupported("a view of a reduction")
        if PLACE in value.expr.symbols:
            raise Unsupported("a view of places")
        return Value(substitute(value.expr, {s: self._viewed(s, dims) for s in operands_of(value.expr)}))

    def _viewed(self, leaf: Expr, dims: tuple[int, ...]) -> Expr:
        view = self.views[leaf]
        if view.dims:
            raise Unsupported("a view of a view")
        known = self.extent(view.tensor)
        return self.leaf(view.tensor, _within(dims, len(known.dims) + 1) if known.exact else dims)

    def _expand(self, node: Expr) -> Value:
        value = self._done[node.args[0]]
        if value.dims is not None:
            raise Unsupported("what follows a sum")
        if value.total and extent(node) != SCALAR:
            value = named_total(self, value)
        self.lent |= {self.leaf(s) for s in shape_sources(node) if s.op == "sym" and not s.is_differential}
        return value if value.total or (value.dropped and self.single) else Value(value.expr)

    def _restore(self, node: Expr) -> Value:
        places, value = self.places(node["dim"]), self._done[node.args[0]]
        if node["keepdim"] is not False or value.total or value.dims is not None:
            raise Unsupported("a view of a reduction")
        if value.dropped and places != (-1,):
            raise Unsupported(NOT_LAST)
        if value.dropped:
            return Value(value.expr)
        if value.expr.op == "sym" and value.expr.is_differential:  # of an output, which has lost these dimensions
            return Value(self.leaf(self.views[value.expr].tensor, places))
        return Value(self.lifted(value.expr, places))

    def _drop(self, node: Expr) -> Value:
        """What was summed to one value for each row, without the dimension of the row."""
        value = self._done[node.args[0]]
        if self.places(node["dim"]) != (-1,) or node.get("keepdim", False) is not False:
            raise Unsupported(NOT_LAST)
        if value.like is not None and value.like.op in ("restore", "unsqueeze"):
            if self.places(value.like["dim"]) == (-1,):
                return Value(make("row_sum", value.expr), dropped=True)
        elif not (value.dropped or value.total or value.dims is not None) and self._is_of_row(value.expr):
            return Value(value.expr, dropped=True)
        raise Unsupported("a view of a reduction")

    def _count(self, node: Expr) -> Value:
        if node["dim"] is None:
            known = extent(node.args[0])
            if self.shape is None or not known.exact or known.dims == self.shape:
                return Value(ROWS if self(node.args[0]).dropped else ELEMENTS)
            if known.dims != self.shape[:-1]:
                raise Unsupported("a number of other elements")
            return Value(ROWS)
        places = self.places(node["dim"])
        return Value(ROW if places == (-1,) else size_of(places))

    def _sum_to(self, node: Expr) -> Value:
        value = self._done[node.args[0]]
        if self._is_alike(*node.args) and value.dims is None and not value.total:
            return value
        if value.dropped and node.args[1].is_differential:
            return value  # it has the shape of an output, which a cotangent has too
        if self._is_row_of_alike(value, node.args[1]):
            return Value(make("row_sum", value.expr))
        if value.dropped:
            known = extent(node.args[1])
            if self.one_shape and known.dims == () and _are_tensors(known.lead):
                return value  # for which both have one element for each row
            if known == SCALAR:
                return replace(value, total="sum", over=self.extent(node.args[0]))
            if value.expr.op != "row_sum":
                raise Unsupported("a sum of what belongs to a row")
            return Value(value.expr.args[0], dims=(-1,))
        if value.like not in (None, node.args[1]):
            raise Unsupported("sums over different dimensions")
        return value if value.dims is not None else Value(value.expr, dims=(), like=node.args[1])

    def _conform(self, node: Expr) -> Value:
        """What has the shape of a tensor already, if all tensors have one."""
        value = self._done[node.args[0]]
        if not self._is_alike(*node.args) or value.total or value.dims is not None:
            raise Unsupported(node.op)
        return value

    def _is_alike(self, value: Expr, like: Expr) -> bool:
        """Whether a value has the shape of a tensor because all of undeclared dimensions have them alike."""
        if not self.one_shape:
            return False
        own, other = extent(value), extent(like)
        if _are_tensors(other.lead) and not any(t.is_differential or extent(t).dims != other.dims for t in other.lead):
            return True
        if own.exact or other.exact or own.dims != other.dims:
            return False
        return own.lead == other.lead or _are_tensors(own.lead | other.lead)

    def _is_row_of_alike(self, value: Value, like: Expr) -> bool:
        """Whether a value with an element for each of a row is summed to one for each row of tensors of one shape."""
        if not self.one_shape or value.dropped or value.total or value.dims is not None:
            return False
        known = extent(like)
        return known.dims == (1,) and _are_tensors(known.lead) and bool(self._long_leaves(value.expr))

    def _reduction(self, node: Expr) -> Value:
        """A sum over everything, over what a tensor broadcasts in, or along a row."""
        value, dim, over = self._done[node.args[0]], node["dim"], self.extent(node.args[0])
        over_all = dim is None and node.op in ("sum", "mean")
        if (value.dropped and not over_all) or value.total or value.dims is not None:
            raise Unsupported("a reduction of a reduction")
        if value.dropped:
            mean = value.expr / ROWS
            return replace(
                value, expr=value.expr if node.op == "sum" else mean, total="sum", over=self.extent(node.args[0])
            )
        if over_all:
            self.require_elements(value.expr)
            return Value(value.expr, total=node.op, over=over)
        places, keep = self.places(dim), node.get("keepdim", False)
        if places == (-1,) and self.single and node.op in _OF_ONE and isinstance(keep, bool):
            return Value(value.expr, dropped=not keep)
        if places == (-1,) and isinstance(keep, bool):
            return Value(REDUCED[node.op](value.expr, node), dropped=not keep)
        if node.op not in ("sum", "mean") or not isinstance(keep, bool):
            raise Unsupported(NOT_LAST)
        if -1 in places and not self._is_along_row(value.expr):
            raise Unsupported("a reduction of a reduction")
        return Value(value.expr if node.op == "sum" else value.expr / size_of(places), dims=places, kept=keep)

    def _normalised(self, node: Expr) -> Value:
        """A value for each element of a row, of which all others are a part."""
        value = self._done[node.args[0]]
        if value.dropped or value.total or value.dims is not None:
            raise Unsupported("a reduction of a reduction")
        if self.places(node["dim"]) != (-1,):
            raise Unsupported(NOT_LAST)
        return Value(NORMALISED[node.op](value.expr))

    def require_elements(self, value: Expr) -> None:
        """Raise Unsupported where a value may have fewer elements than its pass: what is reduced in it has more."""
        order = topological(value)
        if any(n.op in ROW_OPS for n in order):
            along = {n for n in of_elements(value) if n.op == "sym" and n.tensors and -1 not in self.views[n].dims}
            if not along.issuperset(operands_of(value)):
                raise Unsupported("a reduction of a reduction")

    def _is_of_row(self, value: Expr) -> bool:
        """Whether a value has one element for each row."""
        leaves = [n for n in of_elements(value) if n.op == "sym" and n.tensors and not is_whole(n)]
        if self.single:
            return PLACE not in leaves
        views = [self.views[n] for n in leaves]
        return PLACE not in leaves and all(length(replace(v, tensor=self.like(v.tensor))) == 1 for v in views)

    def _is_along_row(self, value: Expr) -> bool:
        """Whether a value has an element for each of a row, also where it is made of reductions of rows."""
        return bool(self._long_leaves(value)) or not any(n.op in ROW_OPS for n in of_elements(value))

    def _long_leaves(self, value: Expr) -> list[View]:
        """The tensors outside its reductions of rows that are declared to have an element for each of a row."""
        leaves = [self.views[n] for n in of_elements(value) if n.op == "sym" and n.tensors]
        return [v for v in leaves if -1 not in v.dims and extent(v.tensor).dims[-1:] not in ((), (1,))]

    def places(self, dim: object) -> tuple[int, ...]:
        """Dimensions counted from the end."""
        found = []
        for d in dim if isinstance(dim, tuple) else (dim,):
            if not isinstance(d, int) or (d >= 0 and self.rank is None):
                raise Unsupported(NOT_LAST)
            found.append(d if d < 0 else d - (self.rank or 0))
        return tuple(sorted(found))


def _within(dims: tuple[int, ...], length: int) -> tuple[int, ...]:
    """Those of the dimensions to be added that lie within the last ones: further to the left, a tensor broadcasts."""
    places: list[int] = []
    for dim in sorted(dims, reverse=True):
        if -dim <= length + len(places):
            places.append(dim)
    return tuple(sorted(places))


_OF_ONE = ("sum", "mean", "amax", "amin")  # what one element is itself


def _are_tensors(lead: frozenset[Any]) -> bool:
    """Whether leading dimensions are those of tensors that are given."""
    return bool(lead) and all(isinstance(t, Expr) and t.op == "sym" for t in lead)


_RULES: dict[str, Callable[[Elements, Expr], Value]] = {
    **dict.fromkeys(("boundary", "held"), Elements._boundary),
    "detach": Elements._detach,
    "unsqueeze": Elements._unsqueeze,
    "expand": Elements._expand,
    "restore": Elements._restore,
    "drop": Elements._drop,
    "squeeze": Elements._drop,
    "sum_to": Elements._sum_to,
    "conform": Elements._conform,
    "count": Elements._count,
    **dict.fromkeys(REDUCED, Elements._reduction),
    **dict.fromkeys(NORMALISED, Elements._normalised),
    **PICKED,
}
