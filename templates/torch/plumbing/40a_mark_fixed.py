def _mark_fixed(ctx: Any, *outputs: Tensor) -> None:
    """Mark ``outputs`` as not differentiable, under vmap too, where they wrap the results."""
    if _in_functorch() and not torch.compiler.is_compiling():
        outputs = tuple(_unbatched(y) for y in outputs)
    ctx.mark_non_differentiable(*outputs)
