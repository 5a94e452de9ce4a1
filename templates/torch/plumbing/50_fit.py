def _fit(grad: Tensor, like: Any) -> Tensor:
    """Give a gradient the shape and dtype of its input: sum first, round last."""
    if grad.shape != like.shape:
        grad = grad.sum_to_size(like.shape) if like.shape else grad.sum()
    return grad if grad.dtype == like.dtype else grad.to(like.dtype)
