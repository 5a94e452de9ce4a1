@triton.jit
def xlog1py(x, y):
    return tl.where(y != y, y, tl.where(x == 0, 0.0, x * libdevice.log1p(y)))
