_empty_strided: Any = getattr(torch._C._dynamo.guards, "_empty_strided_cpu", None) or (  # in half the time
    lambda size, strides, dtype: torch.empty_strided(size, strides, dtype=dtype, device="cpu")
)
