def _autocast(like: Tensor) -> _Autocast:
    """Return the state of autocast, in which backward multiplies as well (pytorch#132388)."""
    device = like.device.type
    if not _casts(device):
        return _Autocast("cpu", False, None)
    return _Autocast(
        device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    )
