def _round(y: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Round once; a ``to`` that does nothing would cost the gradient in torch.compile (2.11)."""
    if dtype is None or y.dtype == dtype or not dtype.is_floating_point:
        return y
    return y.to(dtype)
