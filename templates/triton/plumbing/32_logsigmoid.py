@triton.jit
def logsigmoid(x):
    return minimum(x, 0.0) - libdevice.log1p(libdevice.exp(-tl.abs(x)))
