def _is_float(value: Any) -> bool:
    """Tell whether ``value`` is a tensor of real numbers that are not whole by their type."""
    return isinstance(value, Tensor) and value.is_floating_point()
