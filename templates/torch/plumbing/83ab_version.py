@functools.cache
def _version(compiler: tuple[str, ...]) -> str:
    """Return what stands for the version of a compiler in the name of a library."""
    try:
        text = subprocess.run([*compiler, "--version"], capture_output=True, check=False).stdout
    except OSError:
        text = b""
    return hashlib.sha256(text).hexdigest()[:8]
