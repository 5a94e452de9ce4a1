@triton.jit
def start(tensor, outer, sizes):
    """Where the tile at an outer index starts."""
    offset = outer % sizes[0] * tensor[2]
    for k in tl.static_range(1, len(sizes)):
        outer = outer // sizes[k - 1]
        offset += outer % sizes[k] * tensor[k + 2]
    return tensor[0] + offset
