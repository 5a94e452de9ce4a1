@triton.jit
def read(tensor, place, VARIES: tl.constexpr, T: tl.constexpr):
    """The elements of a tile; one for each row where they do not vary along it."""
    outer, sizes, row, column, filled, within = place
    rows = start(tensor, outer, sizes) + row * tensor[1]
    if VARIES:
        value = tl.load(rows + column, mask=filled & within, other=0)
    else:
        value = tl.load(rows, mask=filled, other=0)
    return value.to(T)
