def _conv3d_input(shape: Any, weight: Tensor, grad: Tensor, **how: Any) -> Any:
    """Return the gradient of a convolution in its input; torch's own takes batches only."""
    weight, grad = _autocast_all(weight, grad)
    if len(shape) == 4:
        return _nn_grad.conv3d_input((1, *shape), weight, grad.unsqueeze(0), **how).squeeze(0)
    return _nn_grad.conv3d_input(shape, weight, grad, **how)
