def _widen_all(*tensors: Any) -> Any:
    """Return the numbers as float64, which this formula needs, and, last, the dtype to round to."""
    for t in tensors:
        if t is not None and t.dtype not in (torch.float64, torch.bool):
            break
    else:
        return *tensors, None
    if t.device.type == "mps":  # has no float64
        return _widen(*tensors)
    dtype = _result_dtype(*[t for t in tensors if t is not None])
    wide = [t if t is None or t.dtype == torch.bool else t.double() for t in tensors]
    return *wide, dtype if dtype.is_floating_point else torch.get_default_dtype()
