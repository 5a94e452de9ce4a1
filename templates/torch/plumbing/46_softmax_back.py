def _softmax_back(grad: Tensor, y: Tensor, dim: int) -> Tensor:
    """Return ``y * (grad - sum(y * grad))``, the gradient through a softmax, in one pass."""
    if grad.shape != y.shape or grad.dtype != y.dtype:
        return y * (grad - (y * grad).sum(dim=dim, keepdim=True))
    product: Tensor = torch.ops.aten._softmax_backward_data(grad, y, dim, y.dtype)
    return product
