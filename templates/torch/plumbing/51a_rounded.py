def _rounded(grad: Tensor | None, like: Any) -> Tensor | None:
    """Give a gradient that was added up the dtype of its input."""
    return grad if grad is None or grad.dtype == like.dtype else grad.to(like.dtype)
