@triton.jit
def reciprocal(x):
    return divide(1.0, x)
