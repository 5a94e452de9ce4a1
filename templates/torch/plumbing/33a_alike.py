def _alike(least: torch.dtype, *tensors: Any) -> Any:
    """Return floating tensors in one dtype, ``least`` or wider: products want equal ones."""
    floats = [t.dtype for t in tensors if t is not None and t.dtype.is_floating_point]
    dtype = reduce(torch.promote_types, floats, least)
    return [
        t if t is None or t.dtype == dtype or not t.dtype.is_floating_point else t.to(dtype)
        for t in tensors
    ]
