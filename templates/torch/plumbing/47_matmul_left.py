def _matmul_left(grad: Tensor, b: Tensor, shape: Any) -> Tensor:
    """Return the gradient of ``a @ b`` with respect to ``a`` of ``shape``."""
    if b.dim() == 1:
        product = grad.unsqueeze(-1) * b
    elif len(shape) == 1:
        return (grad.unsqueeze(-2) * b).sum(-1).sum_to_size(shape)
    else:
        product = grad @ b.mT
    return product.sum_to_size(shape)
