class _Walk:
    """How a pass runs over tensors of given shapes and strides."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.function: Any = None
        self.dtype = dtype
        self.places: list[int] | None = []  # of the arguments among tensors and results; None: as they are
        self.copies: dict[int, Any] = {}
        self.results: list[Any] = []  # shape, strides and dtype
        self.sizes: list[int] = []
        self.steps: list[list[int]] = []
        self.summed: list[int] = []
        self.subset: tuple[int, ...] = ()
        self.counts: tuple[int, ...] = ()
        self.address = 0
        self.searches = 0
        self.geometry: Any = None

    def copied(self, tensors: Any) -> list[Tensor]:
        """Return the tensors, those of unfit strides or of truth values copied."""
        found = list(tensors)
        for place, like in self.copies.items():
            fit = found[place].to(self.dtype)
            if like is None:
                fit = fit.contiguous()
            else:
                dims, shape, strides = like
                full = torch.empty_strided(shape, strides, dtype=self.dtype, device=fit.device)
                fit = full.copy_(_unsqueezed(fit, dims))
            found[place] = fit
        return found
