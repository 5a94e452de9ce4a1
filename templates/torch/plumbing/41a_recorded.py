def _recorded(*tensors: Any) -> bool:
    """Tell whether autograd records what is computed from ``tensors`` now."""
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)
