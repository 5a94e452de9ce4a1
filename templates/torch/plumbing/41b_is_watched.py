def _is_watched(args: tuple[Any, ...]) -> bool:
    """Tell whether autograd records a call with ``args``, or forward mode is on."""
    if torch.is_grad_enabled():
        for value in args:
            if isinstance(value, Tensor) and value.requires_grad:
                return True
    return _forward_mode()