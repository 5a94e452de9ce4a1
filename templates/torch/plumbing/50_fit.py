def _fit(grad: Tensor, shape: Any, dtype: Any) -> Tensor:
    """Give a gradient the shape and dtype of its input: sum first, round last."""
    if grad.shape != shape:
        grad = grad.sum_to_size(shape) if shape else grad.sum()
    return grad if grad.dtype == dtype else grad.to(dtype)