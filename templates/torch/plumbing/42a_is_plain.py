def _is_plain(grad: Any) -> TypeGuard[Tensor]:
    """Tell whether nothing differentiates, batches or traces what is computed from ``grad`` now."""
    return type(grad) is Tensor and not (
        torch.compiler.is_compiling()
        or _is_legacy_batched(grad)
        or torch.is_grad_enabled()
        or _forward_mode()
    )
