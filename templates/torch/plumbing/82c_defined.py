def _defined(tensors: Any) -> int:
    """Return which tensors are not None, as bits."""
    return sum(1 << k for k, t in enumerate(tensors) if t is not None)
