def _plus(total: Tensor | None, term: Tensor) -> Tensor:
    """Add what one more cotangent contributes."""
    return term if total is None else total + term
