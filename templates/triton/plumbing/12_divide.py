@triton.jit
def divide(x, y):
    """x / y, correctly rounded: the operator is approximate on float32."""
    if (x * y).dtype == tl.float64:
        quotient = x / y
    else:
        quotient = tl.div_rn(x, y)
    return quotient
