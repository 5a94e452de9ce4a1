def _add_slices(value: Tensor, index: Tensor, shape: Any, dim: int) -> Tensor:
    """Return zeros of ``shape`` to which the slices of ``value`` are added at ``index`` along ``dim``."""
    place = dim % len(shape)
    rows = value.reshape((*shape[:place], index.numel(), *shape[place + 1 :]))
    return value.new_zeros(shape).index_add(place, index.reshape(-1), rows)
