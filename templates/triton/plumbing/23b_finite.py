@triton.jit
def finite(x):
    return tl.where(x == float("inf"), 1e30, tl.where(x == float("-inf"), -1e30, x)).to(x.dtype)
