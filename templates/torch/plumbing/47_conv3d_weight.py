def _conv3d_weight(x: Tensor, shape: Any, grad: Tensor, **how: Any) -> Any:
    """Return the gradient of a convolution in its weight; torch's own takes batches only."""
    x, grad = _autocast_all(x, grad)
    if x.dim() == 4:
        x, grad = x.unsqueeze(0), grad.unsqueeze(0)
    return _nn_grad.conv3d_weight(x, shape, grad, **how)
