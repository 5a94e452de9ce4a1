def _tensors(op: str, *values: Any) -> Any:
    """Make tensors of numbers; refuse complex arguments."""
    for value in values:
        if isinstance(value, complex) or (isinstance(value, Tensor) and value.is_complex()):
            raise TypeError(f"{op}: complex arguments are not supported")
    tensors = [v for v in values if isinstance(v, Tensor)]
    return [v if v is None or isinstance(v, Tensor) else _number(v, tensors) for v in values]
