def _narrow(kept: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Round a sum that backward reads: that is no more than half an ulp in each of its terms."""
    return kept if dtype is None or dtype == torch.float64 else kept.float()
