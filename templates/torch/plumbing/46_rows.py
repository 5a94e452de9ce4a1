def _rows(x: Tensor) -> Tensor:
    """Return ``x`` as the matrix of its rows."""
    if x.dim() == 2:
        return x
    return x.reshape(x.shape[:-1].numel(), x.shape[-1]) if x.dim() > 1 else x.unsqueeze(0)
