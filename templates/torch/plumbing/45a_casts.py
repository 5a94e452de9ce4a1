def _casts(device: str) -> bool:
    """Tell whether a kind of device has autocast; torch.compile cannot ask torch 2.11."""
    return device in ("cpu", "cuda") or torch.amp.is_autocast_available(device)
