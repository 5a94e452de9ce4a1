def _chunk_back(value: Tensor, shape: Any, chunks: int, dim: int, index: int) -> Tensor:
    """Return zeros of ``shape`` with ``value`` as one of the equal parts along ``dim``."""
    size = shape[dim] // chunks
    return value.new_zeros(shape).slice_scatter(value, dim, index * size, (index + 1) * size)
