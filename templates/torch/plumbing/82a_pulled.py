def _pulled(
    passes: Any, given: Any, cotangents: Any, numbers: Any, shapes: Any, wants: Any
) -> list[Any] | None:
    """Run the pass of second derivatives for the cotangents that are defined, if there is one."""
    found = passes.get(_defined(cotangents))
    if found is None:
        return None
    entry, places = found
    wanted = sum(wants[place] << k for k, place in enumerate(places))
    tensors = (*given, *[c for c in cotangents if c is not None])
    fused = _kernels.run(entry, tensors, numbers, shapes, wanted)
    if fused is None:
        return None
    results: list[Any] = [None] * len(given)
    for place, grad in zip(places, fused, strict=True):
        results[place] = grad
    return results
