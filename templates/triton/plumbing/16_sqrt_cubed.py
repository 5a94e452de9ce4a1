@triton.jit
def sqrt_cubed(x):
    return x * sqrt(x)
