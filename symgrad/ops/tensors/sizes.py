"""Sizes that are calculated from named ones: those of slices, of joined and of reshaped tensors.

A size is a number, a name, or a tuple: `("linear", ((name, factor), ...), constant)` for what slices and joins make of
names, `("product", sizes)` for dimensions that were flattened, and any other tuple for a size that is not known. Equal
tuples are equal sizes.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import prod

from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological, transform
from symgrad.ops.tensors.extent import Dim, extent

__all__ = [
    "difference",
    "divided",
    "divided_by",
    "exactly",
    "is_rounded",
    "leaves_rest",
    "less",
    "number_of",
    "plus",
    "product",
    "quotient",
    "share",
    "terms",
    "total",
]


_LARGEST = 200  # of an expression that is multiplied out


def terms(dim: Dim) -> tuple[dict[Dim, Fraction], Fraction]:
    """A size as a sum of multiples of sizes and a constant."""
    if isinstance(dim, int):
        return {}, Fraction(dim)
    if isinstance(dim, tuple) and dim[0] == "linear":
        return dict(dim[1]), dim[2]
    return {dim: Fraction(1)}, Fraction(0)


def _size(terms: dict[Dim, Fraction], constant: Fraction) -> Dim:
    left = {dim: factor for dim, factor in terms.items() if factor}
    if not left and constant.denominator == 1:
        return int(constant)
    if not constant and list(left.values()) == [1]:
        return next(iter(left))
    return ("linear", tuple(sorted(left.items(), key=repr)), constant)


def is_rounded(dim: Dim) -> bool:
    """Whether a size is made of quotients that are rounded down."""
    return bool(divided_by(dim))


def divided_by(dim: Dim) -> set[Dim]:
    """The sizes of which quotients that are rounded down make a size."""
    parts = [part for part in terms(dim)[0] if isinstance(part, tuple)]
    inner = [size for part in parts if part[0] == "product" for size in part[1]]
    found = {whole for size in inner for whole in divided_by(size)}
    floors = [n for part in parts if part[0] == "size" for n in topological(part[1]) if n.op == "floor"]
    return found | {number_of(n) for floor in floors for n in topological(floor) if n.op == "count"}


def exactly(value: Expr) -> Expr:
    """A number whose quotients leave no rest: none of them is rounded down."""
    return transform(value, lambda node: node.args[0] if node.op == "floor" else node)


def leaves_rest(value: Expr) -> bool:
    """Whether a number is made of quotients of sizes that are rounded down for some sizes."""
    for node in topological(value):
        if node.op == "floor":
            factors, constant = terms(number_of(exactly(node)))
            if any(number.denominator > 1 for number in (*factors.values(), constant)):
                return True
    return False


def total(dims: Iterable[Dim]) -> Dim:
    """The sum of sizes."""
    found: dict[Dim, Fraction] = {}
    constant = Fraction(0)
    for dim in dims:
        own, number = terms(dim)
        constant += number
        for part, factor in own.items():
            found[part] = found.get(part, Fraction(0)) + factor
    return _size(found, constant)


def plus(dim: Dim, number: int) -> Dim:
    """A size and so many more."""
    return total([dim, number])


def less(dim: Dim, other: Dim) -> Dim:
    """A size without another one."""
    return total([dim, _times(other, Fraction(-1))])


def divided(dim: Dim, parts: int) -> Dim:
    """One of so many equal parts of a size."""
    return _times(dim, Fraction(1, parts))


def _times(dim: Dim, factor: Fraction) -> Dim:
    own, constant = terms(dim)
    return _size({part: factor * own[part] for part in own}, factor * constant)


def difference(left: Dim, right: Dim) -> int | None:
    """How much larger the first size is; None where that is not known."""
    (one, number), (other, less) = terms(left), terms(right)
    return int(number - less) if one == other and (number - less).denominator == 1 else None


def share(part: Dim, whole: Dim) -> Fraction | None:
    """Which part of a size another one is; None where that is not known."""
    (own, number), (other, constant) = terms(part), terms(whole)
    pairs = [(own.get(name, Fraction(0)), factor) for name, factor in other.items()]
    found = {a / b for a, b in [*pairs, *([(number, constant)] if number or constant else [])] if b}
    known = own.keys() <= other.keys() and (constant or not number)
    return next(iter(found)) if known and len(found) == 1 else None


def product(dims: Iterable[Dim]) -> Dim:
    """The product of sizes."""
    parts: list[Dim] = []
    for dim in dims:
        parts += dim[1] if isinstance(dim, tuple) and dim[0] == "product" else [dim]
    constant = prod(d for d in parts if isinstance(d, int))
    rest: list[Dim] = sorted((d for d in parts if not isinstance(d, int)), key=repr)
    if not rest or constant == 0:
        return constant
    if len(rest) == 1 and not isinstance(whole := _times(rest[0], Fraction(constant)), tuple):
        return whole  # of a half of D twice
    if constant != 1:
        rest.append(constant)
    return rest[0] if len(rest) == 1 else ("product", tuple(rest))


def ratio(left: Dim, right: Dim) -> Fraction | None:
    """How many times as large the first size is; None where they are not products of the same sizes."""
    (number, own), (other, others) = (
        (prod(d for d in of if isinstance(d, int)), of) for of in map(_factors, (left, right))
    )
    alike = [d for d in own if not isinstance(d, int)] == [d for d in others if not isinstance(d, int)]
    return Fraction(number, other) if alike and other else None


def _factors(dim: Dim) -> list[Dim]:
    return list(dim[1]) if isinstance(dim, tuple) and dim[0] == "product" else [dim]


def quotient(whole: Dim, part: Dim) -> Dim | None:
    """The size with which `part` makes `whole`; None where that is not known."""
    over, under = map(_factors, (whole, part))
    numbers = [prod(d for d in dims if isinstance(d, int)) for dims in (over, under)]
    rest = [d for d in over if not isinstance(d, int)]
    for dim in (d for d in under if not isinstance(d, int)):
        if dim not in rest:
            return None
        rest.remove(dim)
    if not numbers[1] or numbers[0] % numbers[1]:
        return None
    return product([*rest, numbers[0] // numbers[1]])


def number_of(value: Expr) -> Dim:
    """The size that a Python number in a formula is: a number, the size of a named dimension, or a product of these."""
    if value.integer is not None:
        return value.integer
    if value.size > _LARGEST:
        return ("size", value)
    if value.op == "count" and isinstance(value["dim"], tuple) and len(value["dim"]) == 1:
        dims, place = extent(value.args[0]).dims, value["dim"][0]
        return dims[place] if -len(dims) <= place < 0 else ("size", value)
    if value.op == "mul":
        numbers = [a.number for a in value.args if a.number is not None]
        parts = [a for a in value.args if a.number is None]
        if all(n.denominator == 1 and n > 0 for n in numbers):
            return product([number_of(a) for a in value.args])
        if len(numbers) == 1 and all(a.op != "pow" for a in parts):
            return _times(product([number_of(a) for a in parts]), numbers[0])
    if value.op == "add":
        return total(number_of(a) for a in value.args)
    return ("size", value)
