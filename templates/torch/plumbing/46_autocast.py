def _autocast(like: Tensor) -> dict[str, Any]:
    """Return the state of autocast, in which backward multiplies as well (pytorch#132388)."""
    device = like.device.type
    if not torch.amp.is_autocast_available(device):
        return {"device_type": "cpu", "enabled": False}
    return {
        "device_type": device,
        "enabled": torch.is_autocast_enabled(device),
        "dtype": torch.get_autocast_dtype(device),
    }
