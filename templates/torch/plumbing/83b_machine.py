@functools.cache
def _machine() -> tuple[str, ...]:
    """Return what a library depends on beside its source and flags: the processor."""
    found = platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return found, platform.processor()
    return found, *sorted({line for line in lines if line.startswith(("flags", "Features"))})
