def _is_exporting() -> bool:
    """Tell torch.export; torch.compiler.is_exporting() is also true in torch.compile on 2.11."""
    return bool(getattr(torch.compiler, "_is_exporting_flag", True))
