def _typed(op: str, name: str, value: Any, types: Any) -> None:
    """Raise TypeError for a hyperparameter of another type."""
    if not isinstance(value, types) or (isinstance(value, bool) and types is not bool):
        wanted = "float" if types == (float, int) else types.__name__
        raise TypeError(f"{op}: {name} must be of type {wanted}, not {value!r}")
