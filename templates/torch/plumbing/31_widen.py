def _widen(*tensors: Any) -> Any:
    """Return half-precision tensors as float32 and, last, the dtype to round the result to."""
    for t in tensors:
        if t is not None and t.dtype in _HALF:
            break
    else:
        return *tensors, None
    wide = [t.float() if t is not None and t.dtype in _HALF else t for t in tensors]
    return *wide, _result_dtype(*[t for t in tensors if t is not None])
