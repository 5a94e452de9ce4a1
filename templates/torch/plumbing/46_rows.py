def _rows(x: Tensor) -> Tensor:
    """Return ``x`` as the matrix of its rows."""
    return x.reshape(-1, x.shape[-1]) if x.dim() > 1 else x.unsqueeze(0)
