def _tensors(op: str, *values: Any) -> Any:
    """Make tensors of numbers; refuse complex arguments."""
    for value in values:
        if value is not None and (not isinstance(value, Tensor) or value.is_complex()):
            break
    else:
        return values
    tensors = [value for value in values if isinstance(value, Tensor)]
    if any(isinstance(v, complex) or (isinstance(v, Tensor) and v.is_complex()) for v in values):
        raise TypeError(f"{op}: complex arguments are not supported")
    return [v if isinstance(v, Tensor | None) else _number(v, tensors) for v in values]
