def _summed(grad: Tensor, like: Any) -> Tensor:
    """Give one of several contributions to a gradient the shape of its input."""
    return grad if grad.shape == like.shape else grad.sum_to_size(like.shape)
