def _require_own(folder: Path) -> None:
    """Raise RuntimeError where anybody else could put a library into a folder, which would then be run."""
    found = folder.stat()
    owner = getattr(os, "getuid", lambda: found.st_uid)()
    if found.st_uid not in (owner, 0) or (os.name == "posix" and found.st_mode & 0o022):
        raise RuntimeError(f"{folder} can be written to by others; SYMGRAD_CACHE names another folder")
