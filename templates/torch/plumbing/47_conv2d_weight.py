def _conv2d_weight(x: Tensor, shape: Any, grad: Tensor, **how: Any) -> Tensor:
    """Return the gradient of a convolution with respect to its weight; torch's own takes batches only."""
    if x.dim() == 3:
        return torch.nn.grad.conv2d_weight(x.unsqueeze(0), shape, grad.unsqueeze(0), **how)
    return torch.nn.grad.conv2d_weight(x, shape, grad, **how)
