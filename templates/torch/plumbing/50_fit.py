def _fit(inputs: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    """Give each gradient the shape and dtype of its input: sum first, round last."""
    fitted = []
    for x, grad in zip(inputs, grads, strict=False):
        if grad is not None and grad.shape != x.shape:
            grad = grad.sum_to_size(x.shape) if x.shape else grad.sum()
        if grad is not None and grad.dtype != x.dtype:
            grad = grad.to(x.dtype)
        fitted.append(grad)
    return tuple(fitted)
