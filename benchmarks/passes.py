"""What torch operations take in passes of an addition, beside what plans count: forward, or autograd's backward.

    MALLOC_MMAP_THRESHOLD_=4000000000 MALLOC_TRIM_THRESHOLD_=4000000000 \\
        python benchmarks/passes.py [--backward] [name ...]

On one thread; the environment keeps the time of fresh pages out. A pass takes as long as memory does, a function as the
processor does: their ratio differs between machines, so that a figure is read beside those of exp and tanh. Masks
hold for a random half of the elements, as those of activations do.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from symgrad.accuracy.cost import operation_cost
from symgrad.ir import truth
from symgrad.ir.expr import Expr, make, num, symbol
from symgrad.ops.functions import FUNCTIONS
from symgrad.plan.composite import backward_cost
from symgrad.targets.torch.runtime import _runtime as rt

X, Y, M = symbol("x", "tensor"), symbol("y", "tensor"), symbol("m", "bool_tensor")
Call = Callable[[Tensor, Tensor, Tensor], Tensor]
_ALONG = ("softmax", "log_softmax", "logsumexp", "cumsum", "cumprod", "amax", "sum", "mean")
_ABOVE_ONE = frozenset({"acosh"})
_OF_WHOLE_NUMBERS = frozenset({"polygamma"})


def operations() -> dict[str, tuple[Expr, Call]]:
    """What is measured: what plans make of it, and the call."""
    bounds = (num(-1), num(1))
    found: dict[str, tuple[Expr, Call]] = {
        "add": (make("add", X, Y), lambda x, y, m: x + y),
        "sub": (make("sub", X, Y), lambda x, y, m: x - y),
        "mul": (make("mul", X, Y), lambda x, y, m: x * y),
        "div": (make("div", X, Y), lambda x, y, m: x / y),
        "neg": (make("neg", X), lambda x, y, m: -x),
        "square": (make("pow", X, num(2)), lambda x, y, m: x**2),
        "pow": (make("pow", X, Y), lambda x, y, m: x**y),
        "gt": (truth.compare("gt", X, Y), lambda x, y, m: x > y),
        "where": (truth.where(M, X, Y), lambda x, y, m: torch.where(m, x, y)),
        "masked": (make("masked", X, M), lambda x, y, m: rt.masked(x, m)),
        "clamp": (make("clamp", X, *bounds), lambda x, y, m: x.clamp(0.5, 1.0)),
    }
    for name, row in FUNCTIONS.items():
        own: Any = getattr(torch, name, None) or getattr(torch.nn.functional, name, None)
        if own is None or name in found or name in _OF_WHOLE_NUMBERS:
            continue
        if len(row.parameters) <= 2 and row.required == len(row.parameters):
            two = row.required == 2
            found[name] = (make(name, X, Y) if two else make(name, X), _called(own, two))
    for name in _ALONG:
        attributes = {"dim": -1} | ({"keepdim": False} if name in ("logsumexp", "amax", "sum", "mean") else {})
        found[name] = (make(name, X, **attributes), lambda x, y, m, name=name: getattr(x, name)(-1))  # type: ignore[misc]
    return found


def _called(own: Any, two: bool) -> Call:
    return lambda x, y, m: own(x, y) if two else own(x)


def seconds(run: Callable[[], float]) -> float:
    """The median of what a run says that it took, after two that do not count."""
    return statistics.median([run() for _ in range(11)][2:])


def timed(call: Callable[[], object]) -> float:
    """The time of a call, without what else the machine does."""
    start = time.thread_time()
    call()
    return time.thread_time() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="operations, by default all")
    parser.add_argument("--backward", action="store_true", help="autograd's backward, for each operand")
    parser.add_argument("--elements", type=int, default=1 << 22)
    given = parser.parse_args()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    x, y, z = (torch.rand(given.elements // 1024, 1024, generator=generator) * 0.8 + 0.1 for _ in range(3))
    mask = z > z.median()
    unit = statistics.median(seconds(lambda: timed(lambda: x + y)) for _ in range(5))
    for name, (form, call) in operations().items():
        if given.names and name not in given.names:
            continue
        shift = 1.0 if name in _ABOVE_ONE else 0.0
        operands = [x + shift, y]
        if not given.backward:
            measured, table = seconds(lambda: timed(lambda: call(*operands, mask))), operation_cost(form)  # noqa: B023
        else:
            read = [s for s in (X, Y) if s in form.symbols]
            wanted = [operands[(X, Y).index(s)].requires_grad_() for s in read]
            if form.is_boolean or not call(*operands, mask).requires_grad:
                continue

            def run() -> float:
                result = call(*operands, mask)  # noqa: B023
                cotangent = torch.ones_like(result)
                return timed(lambda: torch.autograd.grad(result, wanted, cotangent))  # noqa: B023

            measured, table = seconds(run) / len(read), backward_cost([form]) / len(read)
            for operand in operands:
                operand.requires_grad_(False)
        print(f"{name:20} measured {measured / unit:7.2f}  counted {table:6.2f}", flush=True)


if __name__ == "__main__":
    main()
