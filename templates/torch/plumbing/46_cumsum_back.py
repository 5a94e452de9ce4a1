def _cumsum_back(x: Tensor, dim: int) -> Tensor:
    """Sum each element and all that follow it; a scalar is its own sum (flip fails under vmap)."""
    return x.flip(dim).cumsum(dim).flip(dim) if x.dim() else x
