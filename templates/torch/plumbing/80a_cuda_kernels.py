class _CudaKernels(_Kernels):
    """The fused passes of this module over plain CUDA tensors, in Triton; they may decline."""

    kind = "cuda"
    as_is = frozenset({torch.bool})
    narrow = 0
    refused: Any = ()  # what Triton raises where it cannot compile a pass for a device

    def run(
        self, entry: Any, tensors: Any, numbers: Any = (), shapes: Any = None, wanted: int = -1
    ) -> Any:
        """Return the results of a pass, None for those not wanted; None alone where it declines."""
        if entry is None or not self.on or _dispatch_modes():
            return None
        key: list[Any] = [entry.name, wanted, shapes]
        try:
            for t in tensors:
                if type(t) not in _PLAIN or t.device.type != self.kind or t.is_neg():
                    return None
                if t.data_ptr() == 0:
                    return None
                key += (t.device, t.dtype, t.shape, t.stride())
        except RuntimeError:  # as on a CPU
            return None
        known = tuple(key)
        walk = self.walks.get(known)
        if walk is None:
            walk = self.prepare(entry, tensors, shapes, wanted, known)
        if not walk:
            return None
        tensors = walk.copied(tensors)
        try:
            with torch.cuda.device(tensors[0].get_device()):
                operands = [tensors[place] for place, _ in entry.operands]
                return walk.function(operands, (*numbers, *walk.counts))
        except self.refused as error:
            return self.give_up(error)

    def prepare(self, entry: Any, tensors: Any, shapes: Any, wanted: int, key: Any) -> Any:
        """Return how a pass runs, as on a CPU; every choice of results has a kernel of its own."""
        if len(entry.subsets) > 1:
            entry = entry._replace(subsets=(wanted, entry.subsets[-1]))
        return super().prepare(entry, tensors, shapes, wanted, key)

    def load(self, dtype: torch.dtype, part: int, narrow: bool) -> Any:
        """Return the module of the passes. Raises ImportError, OSError and RuntimeError."""
        library = next(iter(self.libraries.values()), None)
        if library is None:
            library = _triton_module(self.source, self.digest)
            self.refused = library.TritonError
        return library

    def bind(self, walk: Any, entry: Any, tensors: Any, library: Any) -> Any:
        """Return the walk with the pass that it calls, or False where there is none."""
        if entry.name not in library.PASSES or len({t.device for t in tensors}) > 1:
            return False
        count = len(entry.operands)
        results = [
            None if size is None else (size, strides, steps, summed > 0, dtype)
            for (size, strides, dtype), steps, summed in zip(
                walk.results, walk.steps[count:], walk.summed, strict=True
            )
        ]
        walk.function = library.Plan(library.PASSES[entry.name], walk.dtype, walk.sizes, walk.steps[:count], results)
        return walk
