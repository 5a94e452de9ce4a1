def _differentiated() -> bool:
    """Tell whether something may differentiate what is computed now."""
    return torch.is_grad_enabled() or _forward_mode()
