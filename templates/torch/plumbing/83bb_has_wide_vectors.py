def _has_wide_vectors() -> bool:
    """Tell whether the processor has vectors of 512 bits that a compiler can be told to leave."""
    return any(" avx512f" in features for features in _machine())
