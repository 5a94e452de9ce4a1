def _kind(value: Any) -> Any:
    """Return what an error message calls ``value``."""
    return getattr(value, "dtype", type(value))
