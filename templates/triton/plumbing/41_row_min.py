@triton.jit
def row_min(x):
    """The smallest element of each row, or NaN."""
    return tl.reduce(x, 1, minimum)[:, None]
