def _plus_product(total: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Add ``a @ b``, for a matrix ``b``, to ``total``, which is overwritten."""
    if not total.is_contiguous():
        return total.add_(a @ b)
    _rows(total).addmm_(_rows(a), b)
    return total
