def _is_batched(t: Tensor) -> bool:
    """Tell whether autograd batches ``t``, or a compiler may."""
    return torch.compiler.is_compiling() or _is_legacy_batched(t)
