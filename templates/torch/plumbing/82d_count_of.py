def _count_of(name: str, shape: Any) -> int:
    """Return a number of elements that a pass reads: of all, of a row, or along some dimensions."""
    if name == "elements":
        return math.prod(shape)
    dims = [-1] if name == "row_length" else [int(d) for d in name.removeprefix("size of ").split()]
    return math.prod(shape[d] for d in dims) if shape else 1
