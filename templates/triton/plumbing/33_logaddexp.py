@triton.jit
def logaddexp(x, y):
    further = libdevice.log1p(libdevice.exp(-tl.abs(x - y)))
    return tl.where((x == y) & (tl.abs(x) == float("inf")), x, maximum(x, y) + further)
