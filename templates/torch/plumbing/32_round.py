def _round(y: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Round once; a ``to`` that does nothing would cost the gradient in torch.compile (2.11)."""
    return y if dtype is None else y.to(dtype)
