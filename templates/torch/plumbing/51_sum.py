def _sum(terms: list[Tensor]) -> Tensor | None:
    """Add the terms that the cotangents contribute; None where there is none."""
    return reduce(torch.add, terms) if terms else None
