@triton.jit
def sigmoid(x):
    """exp(-|x|) cannot overflow; the compiler computes it once for sigmoid(x), sigmoid(-x) and softplus(x)."""
    e = libdevice.exp(-tl.abs(x))
    return divide(tl.where(x < 0, e, 1.0), 1 + e)
