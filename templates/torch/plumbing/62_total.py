def _total(ctx: Any, terms: list[Any], output: int = 0) -> Any:
    """Add the terms of an output's tangent, in the output's shape and dtype."""
    shape, dtype, _ = ctx.outputs[output]
    return sum(terms).expand(shape).to(dtype) if terms else None
