def _drop(value: Tensor, dim: Any) -> Tensor:
    """Remove the dimensions ``dim``, of size 1; a scalar has none (squeeze raises under vmap)."""
    return value.squeeze(dim) if value.dim() else value
