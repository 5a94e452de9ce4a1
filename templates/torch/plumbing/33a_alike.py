def _alike(least: torch.dtype, *tensors: Any) -> Any:
    """Return floating tensors in one dtype, ``least`` or wider: products want equal ones."""
    dtypes = {t.dtype for t in tensors if t is not None}
    dtype = functools.reduce(torch.promote_types, [d for d in dtypes if d.is_floating_point], least)
    if dtypes == {dtype}:
        return tensors
    return [
        t if t is None or t.dtype == dtype or not t.dtype.is_floating_point else t.to(dtype)
        for t in tensors
    ]
