def _part(value: Tensor, dim: int, *shapes: Any) -> Tensor:
    """Return the part of ``value`` along ``dim`` that is of the last one of ``shapes``, after the others."""
    *before, own = (shape[dim] for shape in shapes)
    return value.narrow(dim, sum(before), own)
