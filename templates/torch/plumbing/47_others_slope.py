def _others_slope(x: Tensor, grad: Tensor, dim: int | None) -> Tensor:
    """Multiply ``grad`` by the (symmetric) derivative of ``_others``."""
    if dim is None:
        return _others_slope(x.reshape(-1), grad.reshape(-1), 0).reshape(x.shape)
    if x.dim() == 0:
        return torch.zeros_like(x)
    x, grad = x.movedim(dim, -1), grad.movedim(dim, -1)
    own = torch.eye(x.shape[-1], dtype=torch.bool, device=x.device)
    pairs = _others(torch.where(own, 1, x.unsqueeze(-2)), -1)
    return (grad.unsqueeze(-1) * torch.where(own, 0, pairs)).sum(-2).movedim(-1, dim)
