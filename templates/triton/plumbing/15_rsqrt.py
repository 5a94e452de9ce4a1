@triton.jit
def rsqrt(x):
    return divide(1.0, sqrt(x))
