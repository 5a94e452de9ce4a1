_is_legacy_batched: Any = getattr(torch._C._functorch, "is_legacy_batchedtensor", lambda t: True)
