def _floated(whole: Tensor) -> Tensor:
    """Return a tensor of the dtype and number of dimensions of a function of ``whole`` numbers."""
    return torch.empty((1,) * whole.dim(), dtype=torch.get_default_dtype())
