def _real(op: str, *tensors: Any) -> None:
    """Raise TypeError for what is no real tensor."""
    for t in tensors:
        if not isinstance(t, Tensor) or t.is_complex():
            raise TypeError(f"{op}: expected a real tensor, not {getattr(t, 'dtype', type(t))}")
