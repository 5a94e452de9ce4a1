@triton.jit
def kept(value, place, otherwise):
    """The elements of a tile, and another value beyond the tensor."""
    return tl.where(place[4] & place[5], value, otherwise)
