def _cumsum_back(x: Tensor, dim: int) -> Tensor:
    """Return the sums of each element and all that follow it; a scalar is its own (flip raises under vmap)."""
    return x.flip(dim).cumsum(dim).flip(dim) if x.dim() else x
