"""JAX: pure functions with `custom_jvp`, from whose tangents JAX makes every other derivative."""
