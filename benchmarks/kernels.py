"""The benchmark set of the fused passes: every operation at 4 million elements, on 2 threads.

python benchmarks/kernels.py [--dtype bfloat16] [--json FILE] ...    options of `symgrad bench`
python benchmarks/kernels.py --device cuda --size 67108864           on a GPU, whose caches hold 4 million elements
"""

from __future__ import annotations

import sys
from pathlib import Path

from symgrad.cli import main

HERE = Path(__file__).parent
NAMES = ("swish", "mish", "gelu_tanh", "softplus_beta", "smooth_l1", "snake")
SPECS = [*(HERE.parent / "specs" / f"{name}.yaml" for name in NAMES), *sorted((HERE / "specs").glob("*.yaml"))]

if __name__ == "__main__":
    main(["bench", *map(str, SPECS), "--natives", str(HERE / "natives.py"), "--threads", "2", *sys.argv[1:]])
