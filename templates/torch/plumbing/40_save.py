def _save(ctx: Any, outputs: tuple[Tensor, ...], *tensors: Tensor | None) -> None:
    """Save ``tensors`` for backward and, where forward mode may be on, for jvp."""
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*tensors)
    if _forward_mode():
        ctx.save_for_forward(*tensors)
        ctx.outputs = [(y.shape, y.dtype, y.device) for y in outputs]
