def _matmul_right(a: Tensor, grad: Tensor, shape: Any) -> Tensor:
    """Return the gradient of ``a @ b`` with respect to ``b`` of ``shape``."""
    if a.dim() == 1:
        product = a.unsqueeze(-1) * (grad.unsqueeze(-2) if len(shape) > 1 else grad)
        return product.sum_to_size(shape) if len(shape) > 1 else a * grad
    if len(shape) == 1:
        return (grad.unsqueeze(-1) * a).sum_to_size(shape)
    if len(shape) == 2:
        return _rows(a).mT @ _rows(grad)
    return (a.mT @ grad).sum_to_size(shape)
