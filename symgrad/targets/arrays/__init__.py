"""What targets of pure functions over arrays have in common: JAX and MLX differ by tables and by one template each."""
