@triton.jit
def add(total, tensor, place, value, HOW: tl.constexpr):
    """Add a tile to what this program sums; store it where nothing is summed within a program."""
    if HOW == "each":
        write(tensor, place, value, True)
    elif HOW != "":
        total += kept(value, place, 0.0)
    return total
