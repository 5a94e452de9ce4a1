@triton.jit
def softplus(x):
    return maximum(x, 0.0) + libdevice.log1p(libdevice.exp(-tl.abs(x)))
