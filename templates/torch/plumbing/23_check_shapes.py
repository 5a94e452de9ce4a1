def _check_shapes(op: str, tensors: dict[str, tuple[Any, tuple[Any, ...]]]) -> None:
    """Raise ValueError where a shape is not as declared: a name is one size, `...` any leading ones."""
    sizes: dict[Any, tuple[int, str]] = {}
    for name, (t, dims) in tensors.items():
        if t is None:
            continue
        shape = tuple(t.shape)
        fixed = dims[1:] if dims[:1] == ("...",) else dims
        if len(shape) < len(fixed) or (len(shape) > len(fixed) and len(fixed) == len(dims)):
            expected = ", ".join(str(d) for d in dims)
            raise ValueError(f"{op}: {name} must have the shape [{expected}], not {list(shape)}")
        for dim, size in zip(fixed, shape[len(shape) - len(fixed) :], strict=True):
            expected_size, where = (dim, "") if isinstance(dim, int) else sizes.setdefault(dim, (size, name))
            if size != expected_size:
                what = f"dimension {dim} of {name}" if where else f"a dimension of {name}"
                of = f", and {expected_size} in {where}" if where else f", not {expected_size}"
                raise ValueError(f"{op}: the {what} is {size}{of}")
