def _put_along(value: Tensor, index: Tensor, shape: Any, dim: int) -> Tensor:
    """Return zeros of ``shape`` with ``value`` added at ``index`` along ``dim``."""
    return value.new_zeros(shape).scatter_add(dim, index, value)
