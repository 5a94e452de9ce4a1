def _vmap_inplace(apply: Any, changed: int, in_dims: tuple[Any, ...], *args: Any) -> Any:
    """Change the batched tensor in place: all batch dimensions first, and singleton dimensions to align."""
    if in_dims[changed] is None:
        raise ValueError("vmap: a tensor without a batch dimension cannot hold a batch of results")
    moved = [a if d is None else a.movedim(d, 0) for a, d in zip(args, in_dims, strict=True)]
    rank = moved[changed].dim()
    for i, d in enumerate(in_dims):
        if d is not None and moved[i].dim() < rank:
            missing = rank - moved[i].dim()
            moved[i] = moved[i].reshape(moved[i].shape[:1] + (1,) * missing + moved[i].shape[1:])
    apply(*moved)
    return args[changed], in_dims[changed]
