def _typed(op: str, name: str, value: Any, types: Any) -> None:
    """Raise TypeError for a hyperparameter of another type."""
    if not isinstance(value, types):
        raise TypeError(f"{op}: {name} must be {types}, not {value!r}")
