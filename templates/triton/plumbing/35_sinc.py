@triton.jit
def sinc(x):
    return tl.where(x == 0, 1.0, divide(libdevice.sinpi(x), 3.141592653589793 * x))
