def _unbatched(t: Any) -> Any:
    """Return what is inside of a tensor that vmap made."""
    while _functorch.is_batchedtensor(t):
        t = _functorch.get_unwrapped(t)
    return t
