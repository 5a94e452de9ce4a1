_in_jit_trace = getattr(torch._C, "_is_tracing", lambda: False)
