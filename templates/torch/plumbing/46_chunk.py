def _chunk(x: Tensor, chunks: int, dim: int) -> tuple[Tensor, ...]:
    """Return equal parts along ``dim``. Raises ValueError where there are none."""
    size = x.shape[dim]
    if size % chunks:
        raise ValueError(f"a dimension of size {size} has no {chunks} equal parts")
    return x.split(size // chunks, dim) if size else (x,) * chunks
