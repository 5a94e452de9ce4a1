def _restore(value: Tensor, dim: Any, shape: Any) -> Tensor:
    """Give a reduced ``value`` the dimensions ``dim`` again, of size 1, if they are gone."""
    if value.dim() < len(shape):
        for d in sorted(d % len(shape) for d in (dim if isinstance(dim, tuple) else (dim,))):
            value = value.unsqueeze(d)
    return value
