def _segment_extremum(x: Tensor, index: Tensor, size: int, dim: int, reduce: str) -> Tensor:
    """Return the extrema of the slices of ``x`` along ``dim`` with the same number in ``index``; 0 where there is none."""
    place = dim % x.dim()
    zeros = x.new_zeros((*x.shape[:place], size, *x.shape[place + 1 :]))
    where = index.reshape([-1 if k == place else 1 for k in range(x.dim())]).expand(x.shape)
    return zeros.scatter_reduce(place, where, x, reduce, include_self=False)
