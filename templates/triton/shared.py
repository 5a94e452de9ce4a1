# type: ignore  # Triton's language only looks like Python
"""What the Triton passes of this folder share: functions that formulas call, and how passes are launched.

`tl.exp` and its like are approximations on float32, and so are the operators `/` and `tl.sqrt`: functions
here and in libdevice are not.
"""

import math
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.errors import TritonError
from triton.language.extra import libdevice

__all__ = ["Pass", "Plan", "TritonError"]


# ---------------------------------------------------------------------------------------------- functions
@triton.jit
def square(x):
    return x * x


@triton.jit
def cube(x):
    return x * x * x


@triton.jit
def divide(x, y):
    """x / y, correctly rounded: the operator is approximate on float32."""
    if (x * y).dtype == tl.float64:
        quotient = x / y
    else:
        quotient = tl.div_rn(x, y)
    return quotient


@triton.jit
def reciprocal(x):
    return divide(1.0, x)


@triton.jit
def sqrt(x):
    """The square root, correctly rounded: tl.sqrt is approximate on float32."""
    return libdevice.sqrt_rn(x)


@triton.jit
def rsqrt(x):
    return divide(1.0, sqrt(x))


@triton.jit
def sqrt_cubed(x):
    return x * sqrt(x)


@triton.jit
def maximum(x, y):
    return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def minimum(x, y):
    return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def relu(x):
    return tl.where(x <= 0, 0.0, x)


@triton.jit
def sign(x):
    return tl.where(x > 0, 1.0, tl.where(x < 0, -1.0, 0.0)).to(x.dtype)


@triton.jit
def finite(x):
    return tl.where(x == float("inf"), 1e30, tl.where(x == float("-inf"), -1e30, x)).to(x.dtype)


@triton.jit
def heaviside(x, values):
    return tl.where(x == 0, values, tl.where(x > 0, 1.0, 0.0))


@triton.jit
def sigmoid(x):
    """exp(-|x|) cannot overflow; the compiler computes it once for sigmoid(x), sigmoid(-x) and softplus(x)."""
    e = libdevice.exp(-tl.abs(x))
    return divide(tl.where(x < 0, e, 1.0), 1 + e)


@triton.jit
def softplus(x):
    return maximum(x, 0.0) + libdevice.log1p(libdevice.exp(-tl.abs(x)))


@triton.jit
def logsigmoid(x):
    return minimum(x, 0.0) - libdevice.log1p(libdevice.exp(-tl.abs(x)))


@triton.jit
def logaddexp(x, y):
    further = libdevice.log1p(libdevice.exp(-tl.abs(x - y)))
    return tl.where((x == y) & (tl.abs(x) == float("inf")), x, maximum(x, y) + further)


@triton.jit
def log_ndtr(x):
    """log(erfc(-x / sqrt(2)) / 2); where that is small, the square in the exponent comes first."""
    low = libdevice.log(0.5 * libdevice.erfcx(-0.7071067811865476 * tl.minimum(x, -1.0))) - 0.5 * x * x
    return tl.where(x < -1, low, libdevice.log1p(-0.5 * libdevice.erfc(0.7071067811865476 * x)))


@triton.jit
def remainder(x, y):
    """What is left of x in steps of y, with the sign of y."""
    left = libdevice.fmod(x, y)
    return tl.where((left != 0) & ((left < 0) != (y < 0)), left + y, left)


@triton.jit
def xlogy(x, y):
    return tl.where(y != y, y, tl.where(x == 0, 0.0, x * libdevice.log(y)))


@triton.jit
def xlog1py(x, y):
    return tl.where(y != y, y, tl.where(x == 0, 0.0, x * libdevice.log1p(y)))


@triton.jit
def sinc(x):
    return tl.where(x == 0, 1.0, divide(libdevice.sinpi(x), 3.141592653589793 * x))


@triton.jit
def row_max(x):
    """The largest element of each row; NaN where there is one, which tl.max passes over."""
    return tl.reduce(x, 1, maximum)[:, None]


@triton.jit
def row_min(x):
    """The smallest element of each row, or NaN."""
    return tl.reduce(x, 1, minimum)[:, None]


@triton.jit
def rescaled(total, before, largest):
    """Sums of exponentials below one value as those below a larger one; below -inf there was nothing yet."""
    factor = tl.where(before == largest, 1.0, libdevice.exp(before - largest))
    return tl.where((before == float("-inf")) & (largest > before), 0.0, total * factor)


@triton.jit
def row_sum(x):
    return tl.sum(x, 1)[:, None]


# ---------------------------------------------------------------------------------------------- tiles
@triton.jit
def rows_from(step, ROWS: tl.constexpr, INDEX: tl.constexpr):
    """The rows of a tile; a single one is a number, of which each thread reads what it needs once."""
    if ROWS == 1:
        row = tl.full((), step, INDEX)
    else:
        row = (step + tl.arange(0, ROWS)[:, None]).to(INDEX)
    return row


@triton.jit
def of_rows(value):
    """A column with what is of each row."""
    column, _ = tl.broadcast(value, tl.zeros((1, 1), tl.int1))
    return column


@triton.jit
def kept(value, place, otherwise, VARIES: tl.constexpr = True):
    """The elements of a tile, or one for each row, and another value beyond the tensor."""
    if VARIES:
        there = place[4] & place[5]
    else:
        there = place[4]
    return tl.where(there, value, otherwise)


@triton.jit
def start(tensor, outer, sizes):
    """Where the tile at an outer index starts."""
    offset = outer % sizes[0] * tensor[2]
    for k in tl.static_range(1, len(sizes)):
        outer = outer // sizes[k - 1]
        offset += outer % sizes[k] * tensor[k + 2]
    return tensor[0] + offset


@triton.jit
def read(tensor, place, VARIES: tl.constexpr, T: tl.constexpr):
    """The elements of a tile; one for each row where they do not vary along it."""
    outer, sizes, row, column, filled, within = place
    rows = start(tensor, outer, sizes) + row * tensor[1]
    if VARIES:
        value = tl.load(rows + column, mask=filled & within, other=0)
    else:
        value = of_rows(tl.load(rows, mask=filled, other=0))
    return value.to(T)


@triton.jit
def column_of(place, T: tl.constexpr):
    """The place of each element in its row."""
    return place[3].to(T)


@triton.jit
def read_number(tensor, place, T: tl.constexpr):
    """A whole number of each row; of a single row it is no block, so that what it names is read once in a thread."""
    outer, sizes, row, column, filled, within = place
    return tl.load(start(tensor, outer, sizes) + row * tensor[1], mask=filled, other=0).to(T)


@triton.jit
def located(number, place, length):
    """Whole numbers as places in rows: one that is none ends the program, and never names any."""
    within = (number >= 0) & (number < length)
    tl.device_assert(within, "index out of bounds", mask=place[4])
    return tl.where(within, number, 0)


@triton.jit
def read_at(tensor, place, at, VARIES: tl.constexpr, T: tl.constexpr):
    """An element of each row."""
    outer, sizes, row, column, filled, within = place
    rows = start(tensor, outer, sizes) + row * tensor[1]
    if VARIES:
        rows += at.to(tl.int32)
    return of_rows(tl.load(rows, mask=filled, other=0)).to(T)


@triton.jit
def write(tensor, place, value, VARIES: tl.constexpr):
    """Store the elements of a tile, or one for each row."""
    outer, sizes, row, column, filled, within = place
    rows = start(tensor, outer, sizes) + row * tensor[1]
    if VARIES:
        tl.store(rows + column, value, mask=filled & within)
    else:
        tl.store(of_rows(rows), value, mask=filled)


@triton.jit
def add(total, tensor, place, value, HOW: tl.constexpr, VARIES: tl.constexpr):
    """Add a tile to what this program sums; store it where nothing is summed within a program."""
    if HOW == "each":
        write(tensor, place, value, VARIES)
    elif HOW != "":
        total += kept(value, place, 0.0, VARIES)
    return total


@triton.jit
def end_rows(total, tensor, place, HOW: tl.constexpr):
    """Store the sums along these rows, where there is one for each."""
    if HOW == "row":
        write(tensor, place, tl.sum(total, 1)[:, None], False)
        total = tl.zeros_like(total)
    return total


@triton.jit
def end_run(total, tensor, place, HOW: tl.constexpr):
    """Store what was summed over all rows of this program: along them too, or for each column."""
    outer, sizes, row, column, filled, within = place
    if HOW == "all":
        tl.store(start(tensor, outer, sizes), tl.sum(tl.sum(total, 1), 0))
    elif HOW == "run":
        tl.store(start(tensor, outer, sizes) + column, tl.sum(total, 0)[None, :], mask=within)


# ---------------------------------------------------------------------------------------------- launching
# Results must not depend on the machine, so tiles follow from shapes alone.
TILE = 1024  # elements that a program works on at once
WIDEST = 8192  # those of a row that is reduced, where it can be held; in float64 half of it
PROGRAMS = 512  # enough to keep every machine busy: where there are more, each sums several tiles
LONGEST = 32  # tiles that a program sums
NEAR = 2**31 - 2**16  # offsets that 32 bits hold, also beyond the end of a tensor


class Pass(NamedTuple):
    """A kernel, what it reads of numbers, and the results that are means, as bits.

    A ``wide`` one computes in float64, one ``by_row`` reduces rows. What an ``alike`` one computes twice
    has to be rounded alike, so nothing is contracted. A ``placed`` one reads places in rows.
    """

    kernel: Any
    numbers: Any = None
    means: int = 0
    wide: bool = False
    by_row: bool = False
    alike: bool = False
    placed: bool = False


class Tiles(NamedTuple):
    """How a pass is divided: programs have ``longest`` rows along the dimension ``run``, ``count`` at a
    time, and ``block`` elements of each at a time."""

    sizes: tuple[int, ...]
    run: int
    others: tuple[int, ...]
    block: int
    count: int
    longest: int
    by_row: bool

    @property
    def whole(self) -> bool:
        """Whether a program holds whole rows."""
        return self.sizes[-1] <= self.block

    @property
    def counts(self) -> tuple[int, ...]:
        """How many programs there are: side by side in a row, along the run, and in other dimensions."""
        blocks = 1 if self.by_row else triton.cdiv(self.sizes[-1], self.block)
        chunks = triton.cdiv(self.sizes[self.run], self.longest)
        return blocks, chunks, *(self.sizes[d] for d in self.others)

    def steps(self, steps: Any, how: str = "each") -> tuple[int, ...]:
        """A tensor's steps from row to row, and from program to program in every direction."""
        row, column = steps[self.run], steps[-1]
        over, along = how in ("run", "all"), how in ("row", "all")
        return (
            0 if over else row,
            column if along else column * self.block,
            row if over else row * self.longest,
            *(steps[d] for d in self.others),
        )


def tiled(sizes: Any, results: Any, widest: int, by_row: bool) -> Tiles:
    """Divide a pass."""
    last = len(sizes) - 2
    summed = [steps for _, _, steps, is_summed, _ in filter(None, results) if is_summed]
    # A sum for each column is shortest over the longest of the dimensions that it is over.
    over = [d for s in summed for d in range(last + 1) if s[-1] and not s[d] and sizes[d] > 1]
    run = max(over, key=lambda d: (sizes[d], d), default=last)
    others = tuple(d for d in reversed(range(last + 1)) if d != run)
    block = min(triton.next_power_of_2(sizes[-1]), widest)
    count = max(1, min(TILE // block, triton.next_power_of_2(sizes[run])))
    tiles = Tiles(tuple(sizes), run, others, block, count, count, by_row)
    if any(not s[run] for s in summed) and (tiles.whole or not by_row):
        while 2 * tiles.longest <= min(LONGEST * count, sizes[run]):
            longer = tiles._replace(longest=2 * tiles.longest)
            if math.prod(longer.counts) < PROGRAMS:
                break
            tiles = longer
    return tiles


class Target:
    """Where a result goes: ``how`` programs store it, in what ``steps``; and if that is not the result
    itself, the ``extents`` of the partial sums, and over which dimensions they are to be ``added``."""

    def __init__(
        self, tiles: Tiles, shape: Any, strides: Any, steps: Any, is_summed: bool, dtype: Any, mean: bool
    ) -> None:
        self.shape, self.strides, self.dtype, self.mean = shape, strides, dtype, mean
        self.how, self.extents, self.added, self.kept = "each", (), (), ()
        if is_summed:
            sizes = tiles.sizes
            last = len(sizes) - 1
            away = [d for d, size in enumerate(sizes) if not steps[d] and size > 1]
            over = tiles.run in away and (tiles.whole or not tiles.by_row)
            self.how = ("all" if over else "row") if last in away else "run" if over else "each"
            extents = [*sizes[:last], tiles.counts[0] if last in away else sizes[last]]
            if over:
                extents[tiles.run] = tiles.counts[1]
            self.added = [d for d in away if extents[d] > 1]
            if self.added or mean:
                self.extents = extents
                self.kept = [(extents[d], steps[d]) for d in range(last + 1) if d not in self.added]
                steps = [math.prod(extents[d + 1 :]) for d in range(last + 1)]
        self.reach = sum((size - 1) * step for size, step in zip(tiles.sizes, steps, strict=True))
        self.steps = tiles.steps(steps, self.how)

    def made(self, compute: torch.dtype, device: torch.device) -> Tensor:
        """What programs store to."""
        if self.extents:
            return torch.empty(self.extents, dtype=compute, device=device)
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=device)

    def result(self, stored: Tensor, elements: int) -> Tensor:
        """The result of what programs have stored."""
        if not self.extents:
            return stored
        total = stored.sum(self.added, dtype=torch.float64) if self.added else stored.double()
        if self.mean:
            total /= elements
        made = torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=stored.device)
        sizes, steps = zip(*self.kept, strict=True) if self.kept else ((), ())
        made.as_strided(sizes, steps).copy_(total)
        return made


class Plan:
    """How a pass runs over tensors of given shapes; calling it runs it.

    ``sizes`` are those of its dimensions, the innermost last, ``operands`` the steps of each operand
    along them. ``results`` are shape, strides and steps of each result, whether it is summed in the
    dimensions without a step, and its dtype; None where it is not wanted. Innermost steps are 0 or 1.
    """

    def __init__(
        self, chosen: Pass, dtype: torch.dtype, sizes: Any, operands: Any, results: Any
    ) -> None:
        self.chosen = chosen
        double = chosen.wide or dtype == torch.float64
        self.compute = torch.float64 if double else torch.float32
        if len(sizes) == 1:
            sizes, operands = (1, *sizes), [(0, *steps) for steps in operands]
            results = [r and (*r[:2], (0, *r[2]), *r[3:]) for r in results]
        widest = WIDEST // (1 + double) if chosen.by_row else TILE
        self.tiles = tiles = tiled(sizes, results, widest, chosen.by_row)
        self.operands = [tiles.steps(steps) for steps in operands]
        self.targets = [
            r and Target(tiles, *r, bool(chosen.means >> k & 1)) for k, r in enumerate(results)
        ]
        reach = [t.reach for t in self.targets if t]
        reach += [sum((n - 1) * s for n, s in zip(sizes, o, strict=True)) for o in operands]
        self.grid = (math.prod(tiles.counts), 1, 1)
        hows = ["" if t is None else t.how for t in self.targets]
        self.places = (tiles.sizes[tiles.run], tiles.sizes[-1], tiles.counts, *hows)
        self.constants = {
            "VARIES": sum(1 << k for k, steps in enumerate(operands) if steps[-1]),
            "T": tl.float64 if double else tl.float32,
            "INDEX": tl.int64 if max(reach) >= NEAR else tl.int32,
            "RUN": tiles.longest,
            "ROWS": tiles.count,
            "BLOCK": tiles.block,
            **({"WHOLE": tiles.whole} if chosen.by_row else {}),
        }
        self.options = {
            "num_warps": max(4, min(tiles.block * tiles.count // (128 if double else 512), 16)),
            "enable_reflect_ftz": False,  # subnormal numbers are numbers
            "enable_fp_fusion": not chosen.alike,
            "debug": chosen.placed,  # what is no place in a row is an error, as in torch
            "sanitize_overflow": False,
        }
        self.compiled: dict[torch.device, Any] = {}  # what launches the kernel over aligned tensors

    def __call__(self, tensors: Any, numbers: Any) -> list[Tensor | None]:
        """Return the results; ``tensors`` are the operands, ``numbers`` hyperparameters and sizes."""
        device = tensors[0].device
        stored = [t and t.made(self.compute, device) for t in self.targets]
        read = [(x, *steps) for x, steps in zip(tensors, self.operands, strict=True)]
        written = [
            read[0] if t is None else (made, *t.steps)
            for t, made in zip(self.targets, stored, strict=True)
        ]
        numbers = map(float, self.chosen.numbers(*numbers)) if self.chosen.numbers else ()
        arguments = (*read, *written, *numbers, *self.places)
        # Triton compiles a kernel for what it is called with, and looks at all of it in every call: of that, only
        # whether addresses are multiples of 16 changes here, and what was just made has one.
        aligned = not any([x.data_ptr() % 16 for x in tensors])
        launch = self.compiled.get(device) if aligned else None
        if launch is not None:
            launch(*arguments, *self.constants.values())
        else:
            compiled = self.chosen.kernel[self.grid](*arguments, **self.constants, **self.options)
            if aligned and compiled is not None:
                self.compiled[device] = compiled[self.grid]
        elements = math.prod(self.tiles.sizes)
        return [
            t and t.result(made, elements)
            for t, made in zip(self.targets, stored, strict=True)
        ]
