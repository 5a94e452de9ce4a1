def _restore(value: Tensor, dim: Any, shape: Any) -> Tensor:
    """Give a reduced ``value`` the dimensions ``dim`` again, of size 1, if they are gone."""
    if value.dim() == len(shape):
        return value
    if not isinstance(dim, tuple):  # perhaps symbolic, which torch.compile cannot sort
        return value.unsqueeze(dim)
    for d in sorted(d % len(shape) for d in dim):
        value = value.unsqueeze(d)
    return value
