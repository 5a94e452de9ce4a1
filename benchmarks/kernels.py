"""The benchmark set of the fused passes: every operation at 4 million elements, on 2 threads.

python benchmarks/kernels.py [--dtype bfloat16] [--json FILE] ...    options of `symgrad bench`
"""

from __future__ import annotations

import sys
from pathlib import Path

from symgrad.cli import main

HERE = Path(__file__).parent
SPECS = ("swish", "mish", "gelu_tanh", "softplus_beta", "smooth_l1", "snake")

if __name__ == "__main__":
    specs = [str(HERE.parent / "specs" / f"{name}.yaml") for name in SPECS]
    chosen = [*specs, str(HERE / "specs"), "--natives", str(HERE / "natives.py"), "--threads", "2"]
    main(["bench", *chosen, *sys.argv[1:]])
