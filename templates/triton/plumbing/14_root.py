@triton.jit
def sqrt(x):
    """The square root, correctly rounded: tl.sqrt is approximate on float32."""
    return libdevice.sqrt_rn(x)
