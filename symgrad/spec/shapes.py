"""Whether declared dimensions make sense, and whether given sizes agree with them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from symgrad.errors import shown
from symgrad.spec.model import Dim
from symgrad.spec.names import CONSTANTS, name_fault

__all__ = ["MAX_ELEMENTS", "dims_fault", "size_fault"]

MAX_DIMS = 16
MAX_ELEMENTS = 2**20  # of a tensor in a generated test
MAX_FIXED = 2**24  # of a tensor by the sizes that it is declared with, which tests cannot choose


def dims_fault(dims: Sequence[Dim]) -> str | None:
    """Why ``dims`` is no shape, or None."""
    if len(dims) > MAX_DIMS:
        return f"a shape has at most {MAX_DIMS} dimensions"
    if "..." in dims[1:]:
        return "'...' stands for leading dimensions: it comes first, and once"
    if math.prod(d for d in dims if isinstance(d, int)) > MAX_FIXED:
        return f"a tensor of more than {MAX_FIXED} elements; a dimension with a name, such as 'N', may have any size"
    # A dimension may have the name of a constant; in a formula that is its size, then, and not the constant.
    names = (dim for dim in dims if isinstance(dim, str) and dim not in ("...", *CONSTANTS))
    return next(filter(None, map(name_fault, names)), None)


def size_fault(sizes: Sequence[int], dims: Sequence[Dim] | None, bound: dict[str, int]) -> str | None:
    """Why a tensor of shape ``dims`` cannot have these sizes, or None.

    ``bound`` holds the sizes of the named dimensions met so far, and takes the new ones.
    """
    if len(sizes) > MAX_DIMS:
        return f"a shape has at most {MAX_DIMS} dimensions"
    if math.prod(sizes) > MAX_ELEMENTS:
        return f"a tested tensor has at most {MAX_ELEMENTS} elements"
    if dims is None:
        return None
    fixed = dims[1:] if dims[:1] == ("...",) else dims
    if len(sizes) < len(fixed) or (len(fixed) == len(dims) and len(sizes) > len(dims)):
        return f"must have the dimensions [{', '.join(map(str, dims))}]"
    for dim, size in zip(reversed(fixed), reversed(sizes)):  # noqa: B905 (leading sizes are free)
        expected = bound.setdefault(dim, size) if isinstance(dim, str) else dim
        if size != expected:
            return f"the dimension {shown(str(dim))} is {size} here and {expected} elsewhere"
    return None
