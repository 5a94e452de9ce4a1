def _broadcast(value: Any, *tensors: Tensor) -> Tensor:
    """Return ``value`` as a new tensor of the shape and dtype that ``tensors`` broadcast to."""
    shape = _broadcast_shapes(*[t.shape for t in tensors])
    dtype = _result_dtype(*tensors)
    if not dtype.is_floating_point:
        dtype = torch.get_default_dtype()
    if not isinstance(value, Tensor):
        return torch.full(shape, value, dtype=dtype, device=tensors[0].device)
    return value.to(dtype).expand(shape).clone()
