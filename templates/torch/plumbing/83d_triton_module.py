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
    spec = importlib.util.spec_from_file_location(f"{__name__}_cuda", source)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
