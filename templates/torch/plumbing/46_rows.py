def _rows(x: Tensor) -> Tensor:
    """Return ``x`` as the matrix of its rows."""
    return x.flatten(0, -2) if x.dim() > 1 else x.unsqueeze(0)
