def _log_of_size(size: float) -> float:
    """Return the logarithm of a size, which may be 0."""
    return math.log(size) if size else -math.inf
