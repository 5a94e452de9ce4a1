def _zeros(ctx: Any, output: int) -> Tensor:
    """Return zeros for the cotangent or tangent of an output."""
    shape, dtype, device = ctx.outputs[output]
    return torch.zeros(shape, dtype=dtype, device=device)
