def _conform(value: Tensor, shape: Any) -> Tensor:
    """Sum ``value`` where ``shape`` has size 1 or no dimension, expand where it has so itself."""
    missing = len(shape) - value.dim()
    value = value.reshape((1,) * missing + value.shape)
    own = value.shape[value.dim() - len(shape) :]
    return value.sum_to_size([1 if n == 1 else k for k, n in zip(own, shape, strict=True)]).expand(shape)
