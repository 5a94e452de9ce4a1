def _triton_module(source: Path, digest: str) -> Any:
    """Import the passes in Triton. Raises ImportError, OSError and RuntimeError."""
    text = source.read_text(encoding="utf-8", errors="replace")
    body = text[text.find('\n"""') + 1 :]
    if hashlib.sha256(body.encode()).hexdigest() != digest:
        raise RuntimeError(f"{source.name} is not the file that this module was generated with")
    if torch.version.hip is not None:
        raise RuntimeError("they are not meant for ROCm")
    triton = importlib.import_module("triton")
    if tuple(map(int, triton.__version__.split(".")[:2])) < (3, 6):
        raise RuntimeError(f"Triton 3.6 or later is needed, and this is {triton.__version__}")
    triton.runtime.driver.active.get_current_target()  # needs a C compiler
    package = types.ModuleType(f"{__name__}_passes")  # in which it finds what all of its folder share
    package.__path__ = [str(source.parent)]
    sys.modules[package.__name__] = package
    importlib.invalidate_caches()
    return importlib.import_module(f"{package.__name__}.{source.stem}")
