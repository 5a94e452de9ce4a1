def _seal(library: Path) -> None:
    """Append the hash of a library, which loaders do not read."""
    made = library.read_bytes()
    library.write_bytes(made + hashlib.sha256(made).digest())
