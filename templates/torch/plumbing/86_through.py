def _through(
    function: Any, first: Any, wants: Any, given: Any, count: int, wanted: Any, cotangents: Any
) -> list[Tensor | None]:
    """Return what the cotangents of the gradients give to ``given``, by the eager backward.

    It reads aliases of what is given, of which some may be functions of others.
    """
    with torch.enable_grad():
        aliases = [t.view_as(t) if want else t for t, want in zip(given, wanted, strict=True)]
        grads = _eager_gradients(function, first, wants, aliases, count)
    pairs = [(g, c) for g, c in zip(grads, cotangents, strict=False) if c is not None]
    pairs = [(g, c) for g, c in pairs if g is not None and g.requires_grad]
    places = [k for k, want in enumerate(wanted) if want]
    found: list[Tensor | None] = [None] * len(given)
    if pairs and places:
        pulled = torch.autograd.grad(
            [g for g, _ in pairs],
            [aliases[k] for k in places],
            [c for _, c in pairs],
            create_graph=torch.is_grad_enabled(),
            allow_unused=True,
        )
        for place, grad in zip(places, pulled, strict=True):
            found[place] = grad
    return found
