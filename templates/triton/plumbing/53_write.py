@triton.jit
def write(tensor, place, value, VARIES: tl.constexpr):
    """Store the elements of a tile, or one for each row."""
    outer, sizes, row, column, filled, within = place
    rows = start(tensor, outer, sizes) + row * tensor[1]
    if VARIES:
        tl.store(rows + column, value, mask=filled & within)
    else:
        tl.store(rows, value, mask=filled)
