def _unsqueezed(t: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return a view with dimensions of size 1 at these places."""
    for dim in sorted(dims, reverse=True):
        t = t.unsqueeze(dim)
    return t
