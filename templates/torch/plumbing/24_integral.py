def _integral(op: str, name: str, value: Any) -> None:
    """Raise TypeError where a tensor that counts or indexes is not of integers."""
    if isinstance(value, Tensor) and (value.is_floating_point() or value.dtype == torch.bool):
        raise TypeError(f"{op}: {name} must be a tensor of integers, not of {value.dtype}")
