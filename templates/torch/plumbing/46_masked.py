def _masked(value: Tensor, mask: Tensor) -> Tensor:
    """Return the value where the mask is true, else 0: on a CPU with a kernel for whole vectors."""
    if not value.is_cpu:
        return torch.where(mask, value, 0)
    chosen: Tensor = torch.ops.aten.threshold_backward(value, mask.to(value.dtype), 0)
    return chosen
