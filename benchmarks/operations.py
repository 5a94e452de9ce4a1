"""Operations of generated eager Functions against the composite under autograd, as torch dispatches them.

    python benchmarks/operations.py specs/*.yaml

Views and what only allocates do not count; what computes several gradients at once, as torch's backward of a
convolution does, counts once for each. One row per spec: forward and backward of both, and the ratio of backward.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import symgrad
from symgrad.bench.arguments import arguments, sized
from symgrad.compiler.compile import compile_operation
from symgrad.parse import parse_formulas
from symgrad.spec import load_spec
from symgrad.targets.torch.composite import load_composite

_NAMES = """
    alias as_strided detach diagonal empty empty_like empty_strided expand is_same_size lift_fresh narrow
    new_empty_strided permute reshape select slice split squeeze t transpose unbind unsqueeze view _local_scalar_dense
    _reshape_alias _to_copy _unsafe_view
"""
_FREE = frozenset(_NAMES.split())


class Counting(TorchDispatchMode):
    """Counts the operations that are dispatched."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        name = func._schema.name.partition("::")[2]
        if name not in _FREE:
            results = found if name.endswith("_backward") and isinstance(found, tuple) else (found,)
            self.count += sum(r is not None for r in results)
        return found


def operations(call: Callable[[], Any], tensors: Sequence[Tensor]) -> tuple[int, int]:
    """The operations of a call, and those of its backward."""
    with Counting() as forward:
        found = call()
    outputs = [y for y in (found if isinstance(found, tuple) else (found,)) if y.requires_grad]
    wanted = [t for t in tensors if t.requires_grad]
    cotangents = [torch.ones_like(y) for y in outputs]
    with Counting() as backward:
        if outputs and wanted:
            torch.autograd.grad(outputs, wanted, cotangents, allow_unused=True)
    return forward.count, backward.count


def main() -> None:
    """Print one row per spec."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("specs", nargs="+", type=Path)
    for path in parser.parse_args().specs:
        spec = load_spec(path).without_kernels()
        if spec.gradients or not any(o.grad for o in spec.outputs):
            continue  # the composite of an overridden gradient is another operation
        ours = getattr(symgrad.load(spec), spec.op)
        theirs = load_composite(compile_operation(parse_formulas(spec)))
        own = arguments(sized(spec, theirs), 64, torch.float64)
        tensors, settings = own[: len(spec.tensors)], own[len(spec.tensors) :]
        named = dict(zip((h.name for h in spec.hyperparameters), settings, strict=True))
        other, autograd = operations(lambda f=theirs, a=own: f(*a), tensors)
        forward, backward = operations(lambda f=ours, a=tensors, k=named: f(*a, **k), tensors)
        ratio = backward / max(autograd, 1)
        print(
            f"{spec.op:28} forward {forward:4} / {other:4}  backward {backward:4} / {autograd:4}  {ratio:5.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
