def _add_along(value: Tensor, index: Tensor, shape: Any, dim: int) -> Tensor:
    """Return zeros of ``shape`` to which ``value`` is added at ``index`` along ``dim``."""
    zeros = value.new_zeros(shape)
    if type(value) is not Tensor or _differentiated():
        return zeros.scatter_add(dim, index, value)
    return zeros.scatter_add_(dim, index, value)
