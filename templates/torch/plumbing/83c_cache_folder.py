def _cache_folder() -> Path:
    """Return where compiled passes are kept: $SYMGRAD_CACHE, or the user's cache folder."""
    own = os.environ.get("SYMGRAD_CACHE")
    if own:
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "symgrad"
