def _walk(
    entry: Any, tensors: Any, inputs: Any, wanted: int, dtype: torch.dtype, as_is: Any
) -> _Walk | bool:
    """Plan a pass: the order of its dimensions, and the steps of every tensor along each of them."""
    blank = [torch.empty(size, device="meta") for size in inputs]
    try:
        shape = _broadcast_shapes(*(_unsqueezed(blank[k], dims).shape for k, dims in entry.shape))
    except RuntimeError:  # a mistake, or rows of several lengths, each of which is reduced
        return False
    if 0 in shape or len(shape) > 16 or (entry.rows and not shape):
        return False
    metas = [torch.empty_strided(t.shape, t.stride(), device="meta") for t in tensors]
    views = [_unsqueezed(metas[k], dims or ()) for k, dims in entry.operands]
    if not all(any(views[k].shape[-1:] == shape[-1:] for k in span) for span in entry.spans):
        return False  # a reduction of fewer elements than a row has
    # The strides that an eager operation on these operands would give its result, which may be larger than they.
    layout = functools.reduce(torch.add, [*views, torch.empty((), device="meta").expand(shape)]).stride()
    if entry.rows:  # which lie in one piece
        layout = torch.empty(shape, device="meta").stride()
    last = len(shape) - 1
    dims = [d for d in range(len(shape)) if shape[d] != 1 and not (entry.rows and d == last)]
    dims.sort(key=lambda d: -layout[d])
    if entry.rows:
        dims.append(last)
    walk = _Walk(dtype)
    inner = dims[-1] if dims else None

    def fits(step: Any) -> bool:
        return inner is None or shape[inner] == 1 or step[inner] in (0, 1)

    steps = []
    for view, (place, added) in zip(views, entry.operands, strict=True):
        step = view.expand(shape).stride()
        if added is not None and not (fits(step) and tensors[place].dtype in (dtype, *as_is)):
            step, walk.copies[place] = _unsqueezed(metas[place].contiguous(), added).expand(shape).stride(), None
            if not fits(step):
                step, walk.copies[place] = layout, (added, shape, layout)
        steps.append(step)
    places = [*(place for place, _ in entry.operands), *range(len(tensors), len(tensors) + len(entry.results))]
    walk.places = None if places == list(range(len(places))) else places
    subset = wanted if wanted in entry.subsets else entry.subsets[-1]
    walk.subset = (subset,) if len(entry.subsets) > 1 else ()
    for k, (kind, place, added) in enumerate(entry.results):
        summed, size, strides, step, own = 0, shape, layout, layout, dtype
        if kind in ("row", "kept", "statistic"):
            size = shape[:-1] if kind == "row" else (*shape[:-1], 1)
            like = torch.empty((*shape[:-1], 1), device="meta")
            strides, step = like.view(size).stride(), like.expand(shape).stride()
            if kind == "statistic" and dtype != torch.float64:
                own = torch.float32  # as it is computed
        elif kind == "total":
            summed, size, strides, step = 1, (), (), (0,) * len(shape)
        elif kind == "squeezed" or kind == "reduced":
            like = torch.empty([1 if d - len(shape) in added else n for d, n in enumerate(shape)], device="meta")
            summed, step, size = like.numel(), like.expand(shape).stride(), like.shape
            if kind == "squeezed":
                size = tuple(n for d, n in enumerate(shape) if d - len(shape) not in added)
            strides = torch.empty(size, device="meta").stride()
            if inner is not None and step[inner] > 1:
                step = _packed(like.shape, dims)
                strides = tuple(s or 1 for d, s in enumerate(step) if kind == "reduced" or d - len(shape) not in added)
        elif kind == "tensor" and (inputs[place] != shape or added):
            like = blank[place]
            summed, size, strides = like.numel(), like.shape, like.stride()
            view = _unsqueezed(like, added)
            step = view.expand(shape).stride()
            if inner is not None and step[inner] > 1:  # what is innermost in the pass is not so in this tensor
                step = _packed((1,) * (len(shape) - view.dim()) + view.shape, dims)
                inside = step[len(shape) - view.dim() :]
                strides = tuple(s or 1 for d, s in enumerate(inside, -view.dim()) if d not in added)
        steps.append(step)
        walk.summed.append(summed)
        walk.results.append((tuple(size), strides, own) if wanted >> k & 1 else (None, (), own))
    walk.sizes, walk.steps = _merged(shape, dims, steps, entry.rows)
    walk.counts = tuple(_count_of(name, shape) for name in entry.counts)
    return walk


def _packed(size: Any, dims: list[int]) -> Any:
    """Return the steps of a tensor that lies in the order of these dimensions; 0 where it has one element."""
    steps, length = [0] * len(size), 1
    for d in reversed(dims):
        if size[d] != 1:
            steps[d] = length
            length *= size[d]
    return steps


def _merged(
    shape: Any, dims: list[int], steps: list[Any], rows: bool
) -> tuple[list[int], list[list[int]]]:
    """Return sizes and steps in order, dimensions that lie one behind the other as one."""
    sizes: list[int] = []
    merged: list[list[int]] = [[] for _ in steps]
    for d in reversed(dims):
        kept = rows and len(sizes) == 1  # a row stays what it is
        if sizes and not kept and all(s[d] == m[0] * sizes[0] for s, m in zip(steps, merged, strict=True)):
            sizes[0] *= shape[d]
            continue
        sizes.insert(0, shape[d])
        for s, m in zip(steps, merged, strict=True):
            m.insert(0, s[d])
    if not sizes:
        return [1], [[1] for _ in steps]
    return sizes, merged
