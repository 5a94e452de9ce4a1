def _rounded(grad: Tensor | None, dtype: Any) -> Tensor | None:
    """Give a gradient that was added up the dtype of its input."""
    return grad if grad is None or grad.dtype == dtype else grad.to(dtype)