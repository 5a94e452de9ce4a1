def _count(shape: Any, *dims: int) -> int:
    """Return the number of elements along ``dims``; a scalar has one."""
    return math.prod([shape[d] for d in dims]) if shape else 1
