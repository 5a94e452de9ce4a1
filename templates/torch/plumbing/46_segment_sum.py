def _segment_sum(x: Tensor, index: Tensor, size: int, dim: int) -> Tensor:
    """Sum the slices of ``x`` along ``dim`` that have the same number in ``index``, of ``size`` numbers."""
    place = dim % x.dim()
    return x.new_zeros((*x.shape[:place], size, *x.shape[place + 1 :])).index_add(place, index, x)
