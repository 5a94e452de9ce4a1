class _Kernels:
    """The fused passes of this module over plain CPU tensors, compiled when they are first needed.

    They run where eager operations on the same tensors would give the same; anywhere else they
    decline, and so they do, with one warning, where they cannot be compiled. SYMGRAD_KERNELS=0
    turns them off.
    """

    as_is: frozenset[torch.dtype] = frozenset()  # dtypes that a pass reads beside its own
    narrow = 2048  # elements up to which vectors of 256 bits serve: what follows those of 512 is slow

    def __init__(self, source: str, digest: str, parts: int = 1, elsewhere: Any = None) -> None:
        self.source = Path(__file__).with_name(source)
        self.digest = digest
        self.parts = parts  # each a library: of plain calls, of forward mode and second derivatives
        self.elsewhere = elsewhere  # the passes over CUDA tensors
        self.on = os.environ.get("SYMGRAD_KERNELS", "1") != "0"
        self.walks: dict[Any, Any] = {}
        self.recent: dict[Any, Any] = {}  # the last walks of each pass, and what knows their layouts
        self.libraries: dict[Any, Any] = {}
        self.missing: set[int] = set()  # parts that cannot be compiled
        self.lock = Lock()

    def run(
        self, entry: Any, tensors: Any, numbers: Any = (), shapes: Any = None, wanted: int = -1
    ) -> Any:
        """Return the results of a pass, None for those not wanted; None alone where it declines.

        ``shapes`` are those of the inputs of forward, by default those of ``tensors``.
        """
        if entry is None or not self.on or _dispatch_modes() or any([t.is_nested for t in tensors]):
            return None
        for alike, known, walk in self.recent.get((entry.name, wanted), ()):
            if known == shapes and alike(*tensors):
                return self.call(walk, tensors, numbers)
        if not all(type(t) in _PLAIN and t.is_cpu for t in tensors):
            cuda = self.elsewhere if all(type(t) in _PLAIN and t.is_cuda for t in tensors) else None
            return cuda and cuda.run(entry, tensors, numbers, shapes, wanted)
        walk = self.walk(entry, tensors, shapes, wanted)
        return walk and self.call(walk, tensors, numbers)

    def walk(self, entry: Any, tensors: Any, shapes: Any, wanted: int) -> Any:
        """Return how a pass runs over these plain tensors, None where it must not."""
        try:
            layouts = [(t.dtype, t.shape, t.stride()) for t in tensors]
            if any(t.is_neg() or t.data_ptr() == 0 for t in tensors):
                return None
        except RuntimeError:  # sparse tensors have no strides, wrappers of transforms no storage
            return None
        key = entry.name, wanted, shapes, *layouts
        walk = self.walks.get(key)
        if walk is None:
            walk = self.prepare(entry, tensors, shapes, wanted, key)
        if not walk:
            return None
        walk.searches += 1
        if _Layouts is not None and walk.searches & (walk.searches - 1) == 0:  # ever more rarely
            sizes, strides = [list(t.shape) for t in tensors], [list(t.stride()) for t in tensors]
            alike = _Layouts(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
            others = self.recent.get((entry.name, wanted), ())[:3]
            self.recent[entry.name, wanted] = (alike.check, shapes, walk), *others
        return walk

    def call(self, walk: Any, tensors: Any, numbers: Any) -> Any:
        """Return the results of a pass over tensors with the layouts of its walk."""
        addresses = [t.data_ptr() for t in tensors]
        if 0 in addresses:  # of a storage that was freed
            return None
        if walk.copies:
            tensors = walk.copied(tensors)
            addresses = [t.data_ptr() for t in tensors]
        results: list[Tensor | None] = []
        for shape, strides, dtype in walk.results:
            if shape is None:
                results.append(None)
                addresses.append(0)
            else:
                result = _empty_strided(shape, strides, dtype)
                results.append(result)
                addresses.append(result.data_ptr())
        if walk.places is not None:
            addresses = [addresses[place] for place in walk.places]
        threads = torch.get_num_threads()
        walk.function(*walk.subset, *addresses, *numbers, *walk.counts, walk.address, threads)
        return results

    def prepare(self, entry: Any, tensors: Any, shapes: Any, wanted: int, key: Any) -> Any:
        """Return how a pass runs over tensors like these, or False where it must not."""
        known = [place for place, dims in entry.operands if dims is None]
        dtypes = {t.dtype for k, t in enumerate(tensors) if t.dtype != torch.bool and k not in known}
        walk: Any = False
        if len(dtypes) == 1 and dtypes <= _STORAGE.keys():  # eager operations know how to promote
            (dtype,) = dtypes
            inputs = [t.shape for t in tensors] if shapes is None else shapes
            walk = _walk(entry, tensors, inputs, wanted, dtype, self.as_is)
            if walk:
                narrow = math.prod(walk.sizes) <= self.narrow
                library = self.library(dtype, entry.part, narrow and _has_wide_vectors())
                walk = library is not None and self.bind(walk, entry, tensors, library)
        if len(self.walks) > 2000:  # of shapes that keep changing
            self.forget()
        self.walks[key] = walk
        return walk

    def forget(self) -> None:
        """Forget how passes run."""
        self.walks.clear()
        self.recent.clear()

    def library(self, dtype: Any, part: int = 0, narrow: bool = False) -> Any:
        """Return compiled passes for tensors of a dtype, None where there are none."""
        key = dtype, part, narrow
        with self.lock:
            if key not in self.libraries and self.on and part not in self.missing:
                try:
                    self.libraries[key] = self.load(dtype, part, narrow)
                except (ImportError, OSError, RuntimeError) as error:
                    self.give_up(error, part)
            return self.libraries.get(key)

    def give_up(self, error: Exception, part: int = 0) -> None:
        """Decline from now on, and say why; without a later part, plain calls keep their passes."""
        self.on = part > 0
        self.missing.add(part)
        what = "forward mode and second derivatives" if part else "kernels"
        text = f"no fused {what}, eager operations serve instead: {error}"
        warnings.warn(f"{self.source.stem}: {text}", RuntimeWarning, stacklevel=2)

    def load(self, dtype: torch.dtype, part: int, narrow: bool) -> Any:
        """Return the passes for tensors of a dtype. Raises OSError and RuntimeError."""
        return _compiled(self.source, self.digest, _STORAGE[dtype], part, narrow)

    def bind(self, walk: Any, entry: Any, tensors: Any, library: Any) -> Any:
        """Return the walk with the function that it calls, and its geometry; None where the library has none."""
        walk.function = getattr(library, entry.name, None)
        if walk.function is None:
            return self.give_up(RuntimeError(f"{library._name} has no {entry.name}: remove it"), entry.part)
        walk.function.argtypes, walk.function.restype = [_TYPES[letter] for letter in entry.types], None
        numbers = [len(walk.sizes) - 1, *walk.sizes[-1:], *walk.sizes[:-1]]
        for k, steps in enumerate(walk.steps, -len(entry.operands)):
            numbers += [walk.summed[k]] if k >= 0 else []
            numbers += [min(steps[-1], 1), *steps[:-1]]
        walk.geometry = array("q", numbers)
        walk.address, _ = walk.geometry.buffer_info()
        return walk
