def _machine(compiler: str) -> list[str]:
    """Return what a library depends on beside its source: the compiler and the processor."""
    status = os.stat(compiler)
    found = [os.path.realpath(compiler), str(status.st_size), str(status.st_mtime_ns), platform.machine()]
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return [*found, platform.processor()]
    return [*found, *sorted({line for line in lines if line.startswith(("flags", "Features"))})]
