def _number(value: Any, tensors: list[Tensor]) -> Tensor:
    """Return ``value`` as a tensor that leaves the dtype of the result as it is."""
    dtype = _result_dtype(*tensors)
    if isinstance(value, float) and not dtype.is_floating_point:
        dtype = torch.get_default_dtype()
    elif dtype == torch.bool and not isinstance(value, bool):
        dtype = torch.int64
    elif any(t.dtype in _HALF and t.dim() > 0 for t in tensors):
        dtype = torch.promote_types(dtype, torch.float32)  # beside half, a number is not rounded
    device = tensors[0].device if tensors else None
    return torch.ones((), dtype=dtype, device=device).mul_(value)  # full() would recompile
