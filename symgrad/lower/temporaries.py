"""Which values get a name of their own: what is used more than once, and parts of what is too long for a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symgrad.analysis.borders import inside_borders
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.lower.code import Code, source
from symgrad.ops.functions import FUNCTIONS
from symgrad.ops.tensors import shape_only
from symgrad.ops.tensors.extent import extent

_LONGEST = 72  # characters of one printed expression, beyond which its largest part gets a name


def choose_temporaries(roots: Sequence[Expr], order: Sequence[Expr], named: Mapping[Expr, str | Code]) -> set[Expr]:
    """Values that are used more than once, and parts that keep a statement readable."""
    uses: dict[Expr, int] = {}
    hidden = inside_borders(order)
    order = [n for n in order if n not in hidden]
    for node in order:
        for argument in _used(node):
            uses[argument] = uses.get(argument, 0) + 1
    for root in roots:
        uses[root] = uses.get(root, 0) + 1
    for lender in filter(None, (_lends_its_dtype(node, named) for node in order)):
        uses[lender] += 1
    chosen = {n for n in order if n.args and not n.is_static and uses.get(n, 0) > 1 and not _is_free(n, named)}
    width: dict[Expr, int] = {}
    for node in order:
        width[node] = len(node.op) + 2 + sum(_width(a, width, named, chosen) for a in node.args)
        if width[node] > _LONGEST:
            widest = max(node.args, key=lambda a: _width(a, width, named, chosen))
            if widest in width and widest.args and not widest.is_static:
                chosen.add(widest)
                width[node] = len(node.op) + 2 + sum(_width(a, width, named, chosen) for a in node.args)
    return chosen


def _used(node: Expr) -> tuple[Expr, ...]:
    """The arguments that a node needs a name of: not those of which declared dimensions tell all that it reads."""
    if node.op == "count":
        dim, dims = node["dim"], extent(node.args[0]).dims if node.args else ()
        places = dim if isinstance(dim, tuple) else (dim,)
        told = all(isinstance(p, int) and -len(dims) <= p < 0 and isinstance(dims[p], str) for p in places)
        return () if told else node.args
    skip = shape_only(node)
    return tuple(a for k, a in enumerate(node.args) if k not in skip or not _is_declared(a))


def _is_declared(value: Expr) -> bool:
    """Whether all dimensions of a value have sizes that are numbers, names or sums of such."""
    of = extent(value)
    return of.exact and all(not isinstance(d, tuple) or d[0] == "linear" for d in of.dims)


def _lends_its_dtype(node: Expr, named: Mapping[Expr, object]) -> Expr | None:
    """An operand of which a number beside it takes the dtype, where no single tensor with a name can tell it."""
    if node.is_static or node.op not in FUNCTIONS or not FUNCTIONS[node.op].tensor_args:
        return None
    if not any(a.is_static for a in node.args):
        return None
    operand = next(a for a in node.args if not a.is_static)
    leaves = [n for n in topological(operand, leaves=named.keys()) if n in named and n.tensors and not n.is_boolean]
    return operand if operand.args and len(leaves) != 1 else None


def _is_free(node: Expr, named: Mapping[Expr, object]) -> bool:
    """Whether a value is as short as a name and costs nothing: the transposed of what has a name."""
    return node.op in ("T", "mT") and node.args[0] in named


def _width(node: Expr, width: Mapping[Expr, int], named: Mapping[Expr, str | Code], chosen: set[Expr]) -> int:
    if node in named:
        own = named[node]
        return len(own if isinstance(own, str) else source(own))
    if node in chosen:
        return 6
    return width.get(node, 4)
