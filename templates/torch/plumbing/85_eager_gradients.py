def _eager_gradients(function: Any, first: Any, wants: Any, given: Any, cotangents: int) -> Any:
    """Return the gradients by the eager backward; the last of ``given`` are the cotangents."""
    count = len(given) - cotangents
    grads = function.backward(_Unpacked(first, given[:count], wants), *given[count:])
    return grads if isinstance(grads, tuple) else (grads,)
