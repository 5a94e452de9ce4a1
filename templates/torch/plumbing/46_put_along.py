def _put_along(value: Tensor, index: Tensor, shape: Any, dim: int) -> Tensor:
    """Return zeros of ``shape`` with ``value`` at ``index`` along ``dim``; no place twice."""
    zeros = value.new_zeros(shape)
    if type(value) is not Tensor or _differentiated():
        return zeros.scatter(dim, index, value)
    return zeros.scatter_(dim, index, value)
