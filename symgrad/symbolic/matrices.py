"""SymPy's matrix expressions, and sums over the indices of indexed symbols, as tensor operations.

`A*x` of matrices is a matrix product, `HadamardProduct` a product of elements, `Trace` and sums of products of indexed
symbols are Einstein sums. An index that is not summed over is a dimension of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from symgrad.errors import shown
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make
from symgrad.ir.truth import compare, where
from symgrad.ops.tensors.shaping import unsqueeze
from symgrad.ops.tensors.slices import select
from symgrad.symbolic.to_sympy import NotConvertible

__all__ = ["MATRICES", "as_whole", "contracted", "shape_of", "with_plain_indices"]

Known: TypeAlias = Mapping[Any, Expr]

_SINGLE = "{}: an index is a symbol; single and shifted elements are not in the language of SymPy's indices"
_MIXED = (
    "tensors with different indices meet outside of a sum of their products; write it with named dimensions in a text"
)
_WHOLE = "an index runs over a whole dimension, from 0 to its size - 1"


def shape_of(symbol: Any, within: Any) -> tuple[int | str, ...] | None:
    """The declared shape of a matrix symbol, or of an indexed base as it stands in an expression; None of others."""
    import sympy

    if isinstance(symbol, sympy.MatrixSymbol):
        return tuple(_size(symbol, size) for size in symbol.shape)
    if not isinstance(symbol, sympy.IndexedBase):
        return None
    if symbol.shape is not None:
        return tuple(_size(symbol, size) for size in symbol.shape)
    used = [node.indices for node in sympy.preorder_traversal(within) if _is_indexed(node, symbol)]
    for indices in used:
        if any(not i.is_Symbol for i in indices):
            raise NotConvertible(_SINGLE.format(shown(str(symbol[indices]))))
    for limit in (limit for s in _totals(within) for limit in s.limits):
        if any(limit[0] in own for own in used) and len(limit) == 3 and (limit[1] != 0 or not _is_size(limit[2] + 1)):
            raise NotConvertible(f"the index {limit[0]} from {limit[1]} to {limit[2]}: {_WHOLE}")
    ranges: dict[Any, list[Any]] = {}
    for total in sorted((s for s in _totals(within) if s.has(symbol)), key=str):
        for index, *ends in total.limits:
            ranges.setdefault(index, []).extend([ends[1] + 1] if ends else [])
    return tuple(_size(symbol, _one_range(symbol, indices, ranges)) for indices in zip(*used, strict=True))


def _one_range(symbol: Any, indices: tuple[Any, ...], ranges: Mapping[Any, Sequence[Any]]) -> Any:
    """The size of a dimension that has these indices: what they run over, or else the name of the first."""
    sizes = list(dict.fromkeys(size for i in dict.fromkeys(indices) for size in ranges.get(i, ())))
    if len(sizes) > 1:
        raise NotConvertible(f"sums over the index {indices[-1]} of {symbol} have {sizes[0]} and {sizes[1]} terms")
    return sizes[0] if sizes else indices[0]


def with_plain_indices(expr: Any) -> Any:
    """`expr` with symbols in place of indices of the class Idx, and with the ranges that these bring to sums.

    Elements `A[i, j]` of a matrix symbol are those of an indexed base.
    """
    import sympy

    if hasattr(expr, "has") and expr.has(sympy.matrices.expressions.matexpr.MatrixElement):
        expr = expr.replace(_is_element, lambda e: sympy.IndexedBase(e.parent.name, shape=e.parent.shape)[e.i, e.j])
    if not hasattr(expr, "has") or not expr.has(sympy.Idx):
        return expr

    def ranged(total: Any) -> Any:
        limits = [(*limit, limit[0].lower, limit[0].upper) if len(limit) == 1 else limit for limit in total.limits]
        return total.func(total.function, *limits)

    indices = {index: sympy.Symbol(str(index.label), integer=True) for index in expr.atoms(sympy.Idx)}
    return expr.replace(lambda part: isinstance(part, sympy.Sum | sympy.Product), ranged).xreplace(indices)


def _is_element(node: Any) -> bool:
    import sympy

    return (
        isinstance(node, sympy.matrices.expressions.matexpr.MatrixElement)
        and isinstance(node.parent, sympy.MatrixSymbol)
        and not (node.i.is_Integer or node.j.is_Integer)
    )


def _totals(expr: Any) -> set[Any]:
    """The sums and products in it."""
    import sympy

    found: set[Any] = expr.atoms(sympy.Sum, sympy.Product)
    return found


def _is_indexed(node: Any, base: Any) -> bool:
    import sympy

    return isinstance(node, sympy.Indexed) and node.base == base


def _size(symbol: Any, size: Any) -> int | str:
    if getattr(size, "is_Integer", False):
        return int(size)
    if not _is_size(size):
        raise NotConvertible(f"the size {shown(str(size))} of {symbol} is no number and no symbol")
    return str(size.name)


def _is_size(size: Any) -> bool:
    return bool(getattr(size, "is_Symbol", False) or getattr(size, "is_Integer", False))


# ------------------------------------------------------------------------------------------------ sums over indices
def contracted(expr: Any, symbols: dict[Any, Expr]) -> Any:
    """`expr` with sums over indices as symbols of their own, which are entered in `symbols`, and no index left.

    What is left stands for whole tensors: `x[i]*y[i]` is `x*y`.
    """
    import sympy

    if not expr.has(sympy.Indexed):
        return expr
    _check_ranges(expr)
    places: dict[Any, Any] = {}
    for total in sorted(_totals(expr), key=lambda s: len(list(sympy.preorder_traversal(s)))):  # the innermost first
        inner = total.xreplace(places)
        if inner.has(sympy.Indexed):
            value, indices = _contraction(inner, symbols)
            place = sympy.Symbol(str(total), real=True)  # as messages show it
            symbols[place] = value
            places[total] = sympy.IndexedBase(place.name)[indices] if indices else place
    return _each_once(*_without_indices(expr.xreplace(places)))[0]


def _check_ranges(expr: Any) -> None:
    """Raises NotConvertible if a sum or product takes a part of a dimension whose size is declared."""
    import sympy

    for total in _totals(expr):
        uses = [(i, n) for e in total.atoms(sympy.Indexed) for i, n in zip(e.indices, e.base.shape or (), strict=False)]
        for index, *ends in total.limits:
            for size in (size for used, size in uses if used == index):
                if len(ends) == 2 and sympy.expand(ends[1] + 1 - size) != 0:
                    ranges = f"the index {index} from {ends[0]} to {ends[1]} of a dimension of size {size}"
                    raise NotConvertible(f"{ranges}: {_WHOLE}")


def _contraction(total: Any, symbols: dict[Any, Expr]) -> tuple[Expr, tuple[Any, ...]]:
    """A sum or product over indices, and the indices that are left, in the order of the dimensions."""
    import sympy

    summed = []
    for limit in total.limits:
        if len(limit) != 3 or limit[1] != 0:
            raise NotConvertible(f"{shown(str(total))}: {_WHOLE}")
        summed.append(limit[0])
    if isinstance(total, sympy.Product):
        body, indices = _each_once(*_without_indices(total.function))
        if missing := [i for i in summed if i not in indices]:
            raise NotConvertible(
                f"{shown(str(total))}: the index {missing[0]} of the product is that of no tensor in it"
            )
        value = _from(body, symbols)
        for dim in sorted(indices.index(i) - len(indices) for i in summed):
            value = make("prod", value, dim=dim, keepdim=False)
        return value, tuple(i for i in indices if i not in summed)
    terms = []
    for term in sympy.Add.make_args(total.function.expand() if total.function.is_Add else total.function):
        terms.append(_term(term, summed, symbols))
    left = {indices for _, indices in terms}
    if len(left) > 1:
        raise NotConvertible(f"{shown(str(total))}: {_MIXED}")
    return ex.add(*(value for value, _ in terms)), left.pop()


def _term(term: Any, summed: list[Any], symbols: dict[Any, Expr]) -> tuple[Expr, tuple[Any, ...]]:
    """The sum of a product over indices, and the indices that are left."""
    import sympy

    groups: dict[tuple[Any, ...], list[Any]] = {}
    for factor in sympy.Mul.make_args(term):
        _, indices = _without_indices(factor)
        groups.setdefault(indices, []).append(factor)
    scalars = groups.pop((), [])
    missing = [i for i in summed if not any(i in indices for indices in groups)]
    if missing:
        raise NotConvertible(f"{shown(str(term))}: the index {missing[0]} of the sum is that of no tensor in it")
    operands = []
    letters: dict[Any, str] = {}
    subscripts = []
    for indices, factors in groups.items():
        body, _ = _without_indices(sympy.Mul(*factors))
        operands.append(_from(body, symbols))
        subscripts.append("".join(letters.setdefault(i, "abcdefghijklmnopqrstuvwxyz"[len(letters)]) for i in indices))
    left = tuple(index for index in letters if index not in summed)
    output = "".join(letters[index] for index in left)
    scalar = _from(sympy.Mul(*scalars), symbols)
    (own, *others) = subscripts
    if not others and len(set(own)) == len(own):
        dims = tuple(k - len(own) for k, letter in enumerate(own) if letter not in output)
        dim = None if len(dims) == len(own) else dims[0] if len(dims) == 1 else dims
        return ex.mul(scalar, make("sum", operands[0], dim=dim, keepdim=False)), left
    return ex.mul(scalar, make("einsum", *operands, equation=f"{','.join(subscripts)}->{output}")), left


def _without_indices(expr: Any) -> tuple[Any, tuple[Any, ...]]:
    """`expr` with whole tensors in place of their elements, and the indices that these had."""
    import sympy

    found = sorted(expr.atoms(sympy.Indexed), key=str)
    orders = {node.indices for node in found}
    if len(orders) > 1:
        raise NotConvertible(f"{shown(str(expr))}: {_MIXED}")
    for node in found:
        if not all(i.is_Symbol for i in node.indices):
            raise NotConvertible(_SINGLE.format(shown(str(node))))
    whole, indices = expr.xreplace({node: as_whole(node.base) for node in found}), orders.pop() if orders else ()
    if numbers := sorted(whole.free_symbols & {*indices}, key=str):
        raise NotConvertible(
            f"{shown(str(expr))}: the index {numbers[0]} is a number here; write arange(...) in a text"
        )
    return whole, indices


def _each_once(expr: Any, indices: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The arguments as they are. Raises NotConvertible where an index stands twice, as in `x[i, i]`: the elements of a
    diagonal are no whole tensor."""
    twice = next((i for i in indices if indices.count(i) > 1), None)
    if twice is not None:
        raise NotConvertible(f"the index {twice} stands twice: sum over it, or write diagonal(x, 0, -2, -1) in a text")
    return expr, indices


def as_whole(item: Any) -> Any:
    """The symbol that stands for all elements of an indexed base; any other symbol as it is."""
    import sympy

    return sympy.Symbol(str(item.label), real=True) if isinstance(item, sympy.IndexedBase) else item


def _from(expr: Any, symbols: Mapping[Any, Expr]) -> Expr:
    from symgrad.symbolic.from_sympy import from_sympy

    return from_sympy(expr, symbols)


# ------------------------------------------------------------------------------------------------ matrices
def _product(node: Any, known: Known) -> Expr:
    """Scalars and matrices; those of size 1 times 1 are matrices here as well."""
    scalars = [known[a] for a in node.args if not a.is_Matrix]
    matrices = [known[a] for a in node.args if a.is_Matrix]
    total = matrices[0]
    for other in matrices[1:]:
        total = make("matmul", total, other)
    return ex.mul(*scalars, total)


def _trace(node: Any, known: Known) -> Expr:
    return make("einsum", known[node.arg], equation="ii->")


def _matrix_power(node: Any, known: Known) -> Expr:
    if not (node.exp.is_Integer and node.exp > 0):
        raise NotConvertible(f"{shown(str(node))}: a matrix has powers with positive integers")
    total = known[node.base]
    for _ in range(int(node.exp) - 1):
        total = make("matmul", total, known[node.base])
    return total


def _applied(node: Any, known: Known) -> Expr:
    import sympy

    if not isinstance(node.function, sympy.Lambda):
        raise NotConvertible(f"{shown(str(node))}: a function that is applied to elements is a Lambda")
    (variable,) = node.function.variables
    return _from(node.function.expr, {**known, variable: known[node.expr]})


def _identity(node: Any, known: Known) -> Expr:
    (size,) = node.args[:1]
    tensors = [value for value in known.values() if value.op == "sym" and value["kind"] == "tensor"]
    if not size.is_Symbol or not tensors:
        raise NotConvertible(f"{shown(str(node))}: a unit matrix whose size is a symbol can be written, as eye(n)")
    places = make("arange", known[size], tensors[0])
    return where(compare("eq", unsqueeze(places, -1), places), ex.ONE, ex.ZERO)


def _element(node: Any, known: Known) -> Expr:
    total, places = known[node.parent], (node.i, node.j)
    if not all(p.is_Integer for p in places):
        raise NotConvertible(f"{shown(str(node))}: an element stands at two numbers, or at two indices of a sum")
    for place in reversed(places):
        total = select(total, -1, int(place))
    return total


def _dot(node: Any, known: Known) -> Expr:
    left, right = (known[a] for a in node.args)
    if node.args[0].shape != node.args[1].shape:
        right = make("mT", right)
    return make("sum", ex.mul(left, right), dim=None, keepdim=False)


MATRICES: Mapping[str, Callable[[Any, Known], Expr]] = {
    "MatAdd": lambda node, known: ex.add(*(known[a] for a in node.args)),
    "MatMul": _product,
    "MatPow": _matrix_power,
    "Identity": _identity,
    "MatrixElement": _element,
    "Adjoint": lambda node, known: make("mT", known[node.arg]),
    "Transpose": lambda node, known: make("mT", known[node.arg]),
    "HadamardProduct": lambda node, known: ex.mul(*(known[a] for a in node.args)),
    "HadamardPower": lambda node, known: ex.power(known[node.base], known[node.exp]),
    "Trace": _trace,
    "DotProduct": _dot,
    "Inverse": lambda node, known: make("inverse", known[node.arg]),
    "Determinant": lambda node, known: make("det", known[node.arg]),
    "ElementwiseApplyFunction": _applied,
}
