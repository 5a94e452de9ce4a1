@triton.jit
def row_sum(x):
    return tl.sum(x, 1)[:, None]
