def _compiler() -> tuple[str, ...]:
    """Return the command of the C++ compiler: $CXX, which may name options too, or the first there is of the usual."""
    own = os.environ.get("CXX", "").strip()
    if own:
        return (own,) if shutil.which(own) else tuple(own.split())
    return (next(filter(shutil.which, ("g++", "clang++", "c++")), "g++"),)
