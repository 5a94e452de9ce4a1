def _slice_back(value: Tensor, shape: Any, dim: int, start: int, stop: int | None, step: int) -> Tensor:
    """Return zeros of ``shape`` with ``value`` in a slice along ``dim``."""
    return value.new_zeros(shape).slice_scatter(value, dim, start, stop, step)
