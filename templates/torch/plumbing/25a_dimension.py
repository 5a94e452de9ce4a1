def _dimension(op: str, name: str, value: int, rank: int) -> None:
    """Raise IndexError for a hyperparameter that is no dimension."""
    bound = max(rank, 1)
    if not -bound <= value < bound:
        raise IndexError(f"{op}: {name} must be in [{-bound}, {bound - 1}] for {rank} dimensions, not {value}")
