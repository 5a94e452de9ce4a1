def _size_quotient(over: float, under: float) -> float:
    """Return a quotient by a size, which may be 0, as torch has it."""
    return over / under if under else over * math.inf
