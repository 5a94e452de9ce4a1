def _autocast_all(*tensors: Tensor) -> list[Tensor]:
    """Cast as autocast does for a convolution; it does not know the derivatives of one."""
    device = tensors[0].device.type
    if not _casts(device) or not torch.is_autocast_enabled(device):
        return [*tensors]
    dtype = torch.get_autocast_dtype(device)
    return [t.to(dtype) if t.dtype == torch.float32 else t for t in tensors]
