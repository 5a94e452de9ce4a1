def _floated(dtype: torch.dtype, *whole: Tensor) -> torch.dtype:
    """Return ``dtype`` beside functions of ``whole`` numbers, which have the default dtype."""
    if any(t.dim() > 0 for t in whole):
        return torch.promote_types(dtype, torch.get_default_dtype())
    return dtype
