def _lookup(x: Tensor, index: Tensor, dim: int) -> Tensor:
    """Return the slices of ``x`` that ``index`` names along ``dim``, in whose place the dimensions of it stand."""
    place = dim % x.dim()
    found = x.index_select(place, index.reshape(-1))
    return found if index.dim() == 1 else found.reshape((*x.shape[:place], *index.shape, *x.shape[place + 1 :]))
