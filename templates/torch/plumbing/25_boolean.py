def _boolean(op: str, name: str, value: Any) -> None:
    """Raise TypeError where a mask is not of bool."""
    if isinstance(value, Tensor) and value.dtype != torch.bool:
        raise TypeError(f"{op}: {name} must be a bool tensor, not of {value.dtype}")
