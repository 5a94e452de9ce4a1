def _refuse_shapes(op: str, tensors: dict[str, tuple[Any, tuple[Any, ...]]]) -> None:
    """Raise ValueError where a shape is not the declared one: a name is one size, `...` any."""
    sizes: dict[Any, tuple[int, str]] = {}
    for name, (t, dims) in tensors.items():
        if t is None:
            continue
        shape = tuple(t.shape)
        fixed = dims[1:] if dims[:1] == ("...",) else dims
        if len(shape) < len(fixed) or (len(shape) > len(fixed) and len(fixed) == len(dims)):
            declared = ", ".join(str(d) for d in dims)
            raise ValueError(f"{op}: {name} must have the shape [{declared}], not {list(shape)}")
        for dim, size in zip(fixed, shape[len(shape) - len(fixed) :], strict=True):
            known, where = (dim, "") if isinstance(dim, int) else sizes.setdefault(dim, (size, name))
            if size != known and where:
                raise ValueError(f"{op}: the dimension {dim} of {name} is {size}, and {known} in {where}")
            if size != known:
                raise ValueError(f"{op}: a dimension of {name} is {size}, not {known}")
