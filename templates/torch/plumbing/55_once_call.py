def _once(op: str, *grads: Any) -> Any:
    """Return ``grads`` so that differentiating them raises."""
    if torch.compiler.is_compiling() or not _differentiated():
        return grads if len(grads) > 1 else grads[0]
    once: Any = _Once
    grads = tuple(None if g is None else once.apply(g, op) for g in grads)
    return grads if len(grads) > 1 else grads[0]
