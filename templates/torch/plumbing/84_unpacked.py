class _Unpacked:
    """A context whose saved tensors have been read, which may happen only once."""

    def __init__(self, ctx: Any, saved: Any, wants: Any = None) -> None:
        self._ctx = ctx
        self.saved_tensors = saved
        if wants is not None:
            self.needs_input_grad = wants

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)
