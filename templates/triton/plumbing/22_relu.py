@triton.jit
def relu(x):
    return tl.where(x <= 0, 0.0, x)
