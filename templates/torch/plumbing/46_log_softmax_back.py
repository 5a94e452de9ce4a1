def _log_softmax_back(grad: Tensor, y: Tensor, dim: int) -> Tensor:
    """Return ``grad - exp(y) * sum(grad)``, the gradient through a log-softmax, in one pass."""
    if grad.shape != y.shape or grad.dtype != y.dtype:
        return grad - torch.exp(y) * grad.sum(dim=dim, keepdim=True)
    diff: Tensor = torch.ops.aten._log_softmax_backward_data(grad, y, dim, y.dtype)
    return diff
