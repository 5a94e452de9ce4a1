"""Time of each function of the C++ passes for one element, in nanoseconds on one thread, beside torch's own.

    python benchmarks/functions.py [name ...] [--flags="-mno-avx"]

Data lie in the second cache. The sizes of arguments are those for which a function does most of its work; torch has no
`trigamma` without an order, so `polygamma` of order 1 stands beside it.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from symgrad.targets.cpp.shared import shared_files
from symgrad.targets.torch.runtime._kernels import _FLAGS

COUNT = 1 << 14
ANYWHERE, POSITIVE, INSIDE = (-3.0, 3.0), (0.1, 12.0), (-0.95, 0.95)
ONE: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("exp", "expm1", "sin", "cos", "tan", "tanh", "sinh", "cosh", "asinh", "atan"), ANYWHERE),
    **dict.fromkeys(("erf", "erfc", "erfcx", "log_ndtr", "sigmoid", "softplus", "sinc", "floor"), ANYWHERE),
    **dict.fromkeys(("log", "log1p", "log2", "log10", "sqrt", "lgamma", "digamma", "trigamma"), POSITIVE),
    **dict.fromkeys(("asin", "acos", "atanh", "erfinv"), INSIDE),
    "acosh": (1.0, 9.0),
}
TWO = {"pow": POSITIVE, "atan2": ANYWHERE, "hypot": ANYWHERE}
TORCH: dict[str, Callable[..., torch.Tensor]] = {
    "erfcx": torch.special.erfcx,
    "log_ndtr": torch.special.log_ndtr,
    "softplus": torch.nn.functional.softplus,
    "trigamma": lambda x: torch.polygamma(1, x),
}
KINDS = {"float": torch.float32, "double": torch.float64}


def library(folder: Path, flags: list[str]) -> ctypes.CDLL:
    """A library of all functions over arrays."""
    text = '#include "_kernels.h"\n'
    for kind in KINDS:
        for name in (*ONE, *TWO):
            two = name in TWO
            more = f", load<Lanes<{kind}>>(z + i)" if two else ""
            text += (
                f'extern "C" void {name}_{kind}(const {kind}* x, const {kind}* z, {kind}* y, int64_t n) {{\n'
                f"    for (int64_t i = 0; i < n; i += W) store(y + i, {name}(load<Lanes<{kind}>>(x + i){more}));\n}}\n"
            )
    for name, body in shared_files().items():
        (folder / name).write_text(body)
    (folder / "functions.cpp").write_text(text)
    made = folder / "functions.so"
    compiler = os.environ.get("CXX", "").split() or [shutil.which("g++") or "c++"]
    subprocess.run([*compiler, *flags, str(folder / "functions.cpp"), "-o", str(made)], check=True)
    return ctypes.CDLL(str(made))


def nanoseconds(run: Callable[[], object]) -> float:
    """The median time of a run for one element."""
    run()
    times = []
    for _ in range(15):
        start = time.perf_counter()
        for _ in range(4):
            run()
        times.append((time.perf_counter() - start) / 4)
    return statistics.median(times) / COUNT * 1e9


def build_flags() -> list[str]:
    """The options that passes are compiled with."""
    return list(_FLAGS)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="functions, by default all")
    parser.add_argument("--flags", default="", help="more options for the compiler")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        built = library(Path(folder), [*build_flags(), *given.flags.split()])
        print(f"{'function':12}{'float32':>9}{'torch':>9}{'float64':>10}{'torch':>9}")
        for name in given.names or (*ONE, *TWO):
            low, high = (ONE | TWO)[name]
            row = f"{name:12}"
            for kind, dtype in KINDS.items():
                x, z = (torch.rand(COUNT, dtype=dtype) * (high - low) + low for _ in range(2))
                y = torch.empty_like(x)
                addresses = [ctypes.c_void_p(t.data_ptr()) for t in (x, z, y)]
                function = getattr(built, f"{name}_{kind}")
                own = nanoseconds(lambda: function(*addresses, ctypes.c_int64(COUNT)))  # noqa: B023
                arguments = (x, z) if name in TWO else (x,)
                theirs = nanoseconds(lambda: TORCH.get(name, getattr(torch, name, None))(*arguments))  # noqa: B023
                row += f"{own:9.2f}{theirs:9.2f} "
            print(row, flush=True)


if __name__ == "__main__":
    main()
