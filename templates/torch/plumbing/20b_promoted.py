def _promoted(*tensors: Any) -> Any:
    """Return the tensors, in the default dtype if none of them is of floats."""
    if any(t.is_floating_point() for t in tensors):
        return tensors
    return [t.to(torch.get_default_dtype()) for t in tensors]
