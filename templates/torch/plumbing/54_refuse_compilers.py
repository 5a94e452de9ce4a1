def _refuse_compilers(op: str) -> None:
    """Raise where a compiler would drop the gradient rule of a Function in silence."""
    if not torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return
    if _in_functorch() or _is_exporting():
        raise NotImplementedError(
            f"{op}: torch.export and torch.func inside torch.compile lose this gradient; "
            "export under torch.no_grad(), or call torch.func outside torch.compile"
        )
