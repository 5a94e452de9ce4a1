def _widen(*tensors: Any) -> Any:
    """Return the tensors in one dtype, float32 at least, and, last, what to round the result to."""
    dtypes = {t.dtype for t in tensors if t is not None}
    if len(dtypes) == 1 and not dtypes & _HALF:
        return *tensors, None
    floats = [t for t in tensors if t is not None and t.dtype.is_floating_point]
    if all(t.dtype == floats[0].dtype and t.dtype not in _HALF for t in floats):
        return *tensors, None
    dtype = _result_dtype(*floats)
    kind = torch.promote_types(dtype, torch.float32)
    wide = [t.to(kind) if t is not None and t.dtype.is_floating_point else t for t in tensors]
    return *wide, dtype
