_in_functorch = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
