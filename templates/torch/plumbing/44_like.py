def _like(*tensors: Any) -> list[Any]:
    """Return the shapes and dtypes that the gradients of ``tensors`` must have."""
    return [None if t is None else _Like(t.shape, t.dtype) for t in tensors]
