@triton.jit
def end_run(total, tensor, place, HOW: tl.constexpr):
    """Store what was summed over all rows of this program: along them too, or for each column."""
    outer, sizes, row, column, filled, within = place
    if HOW == "all":
        tl.store(start(tensor, outer, sizes), tl.sum(tl.sum(total, 1), 0))
    elif HOW == "run":
        tl.store(start(tensor, outer, sizes) + column, tl.sum(total, 0)[None, :], mask=within)
