def _avg_pool_back(value: Tensor, shape: Any, kernel: Any, stride: Any, padding: Any, dims: int) -> Tensor:
    """Return the transposed of a mean over windows: each element, spread over its window, in a tensor of ``shape``."""
    sizes, steps, edges = (
        k if isinstance(k, tuple) else (k,) * dims for k in (kernel, kernel if stride is None else stride, padding)
    )
    conv = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[dims - 1]
    more = [
        n - (m - 1) * s + 2 * p - k
        for n, m, k, s, p in zip(shape[-dims:], value.shape[-dims:], sizes, steps, edges, strict=True)
    ]
    weight = value.new_full((1, 1, *sizes), 1 / math.prod(sizes))
    planes = value.reshape((-1, 1, *value.shape[-dims:]))
    return conv(planes, weight, stride=steps, padding=edges, output_padding=more).reshape(shape)
