def _pushed(passes: Any, saved: Any, tangents: Any, numbers: Any, shapes: Any) -> Any:
    """Run the pass of forward mode for the tangents that are defined, if there is one."""
    entry = passes.get(_defined(tangents))
    return _kernels.run(entry, (*saved, *[t for t in tangents if t is not None]), numbers, shapes)
