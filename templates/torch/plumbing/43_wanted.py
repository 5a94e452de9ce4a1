def _wanted(ctx: Any) -> tuple[bool, ...]:
    """Tell which inputs need a derivative: in forward mode, any may."""
    needs: tuple[bool, ...] = ctx.needs_input_grad
    return (True,) * len(needs) if _forward_mode() else needs
