"""MLX: functions and `nn.Module`s over `mx.custom_function`, with rules for vjp, jvp and vmap."""
