"""Search for formulas of which a fused kernel gives something else than eager operations.

    python benchmarks/search.py [--count 100] [--seconds 600] [--seed 0]

Each formula is drawn from the tables of functions and reductions, compiled with kernels for calls of every size, and
called with one dtype, with sizes around the width of a vector and strides of several kinds: outputs, gradients of every
subset of the tensors, and second derivatives. A kernel may be further from the truth, in float64, than the eager body
by a few roundings, and finite wherever that is. Every find is printed with the seed that draws it again.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from symgrad.compiler.compile import compile_operation
from symgrad.errors import SymgradError
from symgrad.importing import import_generated
from symgrad.ops.functions import FUNCTIONS
from symgrad.parse import parse_formulas
from symgrad.pipeline import compile_spec
from symgrad.spec import parse_spec
from symgrad.targets.torch.composite import load_composite

_DTYPES = (torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16)
_SIZES = ((1, 1), (3, 5), (2, 15), (5, 16), (3, 17), (2, 31), (7, 33), (2, 300))
_ROW_OPS = ("sum", "mean", "amax", "amin", "logsumexp", "var", "norm")
_TENSORS = ("x", "w")
_DEEP = 3
_SKIPPED = frozenset({"polygamma"})  # whose order is no tensor


@dataclass(frozen=True)
class Find:
    """A formula, and what is wrong with its kernel."""

    seed: int
    spec: str
    what: str


def formula(chance: random.Random) -> str:
    """A random formula in x and w."""
    whole = _value(chance, _DEEP)
    kind = chance.randrange(6)
    if kind == 0:
        return f"{chance.choice(_ROW_OPS)}({whole}, dim=-1)"
    if kind == 1:
        return f"({whole}) * {chance.choice(_ROW_OPS)}({_value(chance, 2)}, dim=-1, keepdim=True)"
    if kind == 2:
        return f"{chance.choice(('softmax', 'log_softmax'))}({whole}, dim=-1) * {_value(chance, 1)}"
    if kind == 3:
        return f"{chance.choice(('sum', 'mean'))}({whole})"
    return whole


def _value(chance: random.Random, depth: int) -> str:
    if depth == 0 or chance.random() < 0.15:
        return chance.choice(_TENSORS)
    kind = chance.randrange(8)
    if kind < 3:
        left, right = _value(chance, depth - 1), _value(chance, depth - 1)
        return f"({left} {chance.choice('+-*')} {right})"
    if kind == 3:
        return f"({_value(chance, depth - 1)}) / (1 + abs({_value(chance, depth - 1)}))"
    if kind == 4:
        condition = f"{_value(chance, depth - 1)} {chance.choice(('<', '>='))} {_value(chance, depth - 1)}"
        return f"where({condition}, {_value(chance, depth - 1)}, {_value(chance, depth - 1)})"
    if kind == 5:
        return f"(1 + ({_value(chance, depth - 1)})**2)**{chance.choice(('2', '3', '(1/2)', '(-1/2)', '0.7', '-2'))}"
    return _call(chance, depth)


def _call(chance: random.Random, depth: int) -> str:
    name = chance.choice(sorted(n for n, row in FUNCTIONS.items() if not row.internal and n not in _SKIPPED))
    row = FUNCTIONS[name]
    if name == "clamp":
        return f"clamp({_value(chance, depth - 1)}, -0.7, 0.9)"
    if name == "pow":
        return f"pow(1 + ({_value(chance, depth - 1)})**2, 1.3)"
    arguments = [_value(chance, depth - 1) for _ in range(row.required)]
    low, high = row.domain
    if (low, high) == (-1, 1):
        arguments[-1] = f"0.9*tanh({arguments[-1]})"
    elif low == 1:
        arguments[-1] = f"1.5 + ({arguments[-1]})**2"
    elif low in (0, -1) or name in ("log", "rsqrt", "sqrt", "reciprocal"):
        arguments[-1] = f"0.5 + ({arguments[-1]})**2"
    else:
        arguments = [f"sin({a})" for a in arguments]  # of moderate size
    return f"{name}({', '.join(arguments)})"


def spec_of(text: str) -> str:
    """The spec of a formula."""
    return f'op: found\ntensors: {{x: {{shape: [B, N]}}, w: {{shape: [B, N]}}}}\noutputs: {{y: "{text}"}}\n'


def _module(text: str, folder: Path) -> ModuleType:
    made = compile_spec(parse_spec(text).with_kernels())
    for name, body in {**made.files, **made.shared}.items():
        (folder / name).write_text(body, encoding="utf-8")
    return import_generated(folder / "found.py")


def _laid_out(t: Tensor, way: int) -> Tensor:
    """The same elements with other strides."""
    if way == 1:
        return t.t().contiguous().t()
    if way == 2:
        return torch.cat([t, t], dim=-1)[:, : t.shape[1]]
    return t


def _results(function: Any, tensors: list[Tensor], wanted: tuple[int, ...], second: bool) -> list[Tensor | None]:
    tensors = [t.detach().requires_grad_(k in wanted) for k, t in enumerate(tensors)]
    y = function(*tensors)
    given = torch.linspace(0.5, 1.5, max(y.numel(), 1), dtype=torch.float64).reshape(y.shape).to(y.dtype)
    found: list[Tensor | None] = [y.detach()]
    if not y.requires_grad:
        return found
    leaves = [tensors[k] for k in wanted]
    grads = torch.autograd.grad(y, leaves, given, create_graph=second, allow_unused=True)
    found += [None if g is None else g.detach() for g in grads]
    linked = [g for g in grads if g is not None and g.requires_grad] if second else []
    if linked:
        more = torch.autograd.grad(linked, leaves, [torch.ones_like(g) for g in linked], allow_unused=True)
        found += [None if g is None else g.detach() for g in more]
    return found


def differences(text: str, dtype: torch.dtype, chance: random.Random) -> Iterator[str]:
    """What is wrong with the kernels of a spec."""
    composite = load_composite(compile_operation(parse_formulas(parse_spec(text))))
    with tempfile.TemporaryDirectory() as folder:
        module = _module(text, Path(folder))
        kernels = getattr(module, "_kernels", None)
        if kernels is None:
            return
        kernels.narrow = 0
        for shape in chance.sample(_SIZES, 4):
            tensors = [_laid_out(torch.randn(shape).to(dtype), chance.randrange(3)) for _ in _TENSORS]
            for wanted in chain.from_iterable(combinations(range(2), n) for n in (1, 2)):
                second = len(wanted) == 2
                kernels.on = True
                fused = _results(module.found, tensors, wanted, second)
                kernels.on = False
                eager = _results(module.found, tensors, wanted, second)
                true = _results(composite, [t.double() for t in tensors], wanted, second)
                for k, (a, b, t) in enumerate(zip(fused, eager, true, strict=False)):
                    if a is not None and b is not None and t is not None:
                        what = _difference(a, b, t, dtype)
                        if what:
                            yield f"{dtype}, {list(shape)}, wanted {wanted}, result {k}: {what}"
                            return


def _difference(fused: Tensor, eager: Tensor, true: Tensor, dtype: torch.dtype) -> str:
    if (fused.shape, fused.dtype) != (eager.shape, eager.dtype):
        return f"shape {list(fused.shape)} {fused.dtype}, eager {list(eager.shape)} {eager.dtype}"
    known = eager.isfinite() & true.isfinite() & (true.abs() < torch.finfo(dtype).max / 16)
    if (known & ~fused.isfinite()).any():
        return f"{int((known & ~fused.isfinite()).sum())} elements are no numbers"
    if not known.any():
        return ""
    off, usual = ((t.double() - true).abs()[known] for t in (fused, eager))
    scale = true[known].abs().max()
    allowed = 8 * usual.max() + 64 * torch.finfo(dtype).eps * scale + 1e-30
    worst = off.max()
    return f"off by {worst:.3g}, eager by {usual.max():.3g}, of {scale:.3g}" if worst > allowed else ""


def search(seed: int, count: int, seconds: float) -> Iterator[Find | None]:
    """The finds among formulas drawn from `seed` on, None for each that is right."""
    end = time.monotonic() + seconds
    for own in range(seed, seed + count):
        if time.monotonic() > end:
            return
        chance = random.Random(own)
        torch.manual_seed(own)
        text = spec_of(formula(chance))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                what = next(differences(text, chance.choice(_DTYPES), chance), None)
        except SymgradError as error:  # what the language refuses is no find
            what = f"refused: {error}" if "internal" in str(error) else None
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
        yield None if what is None else Find(own, text, what)


def main() -> int:
    """Search, and print what is found; the exit status is 1 if that is anything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="formulas at most")
    parser.add_argument("--seconds", type=float, default=600, help="time at most, but for the last formula")
    parser.add_argument("--seed", type=int, default=0, help="of the first formula; each has the next one")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    tried = finds = 0
    for found in search(given.seed, given.count, given.seconds):
        tried += 1
        if found is not None:
            finds += 1
            print(f"seed {found.seed}: {found.what}\n{found.spec}", flush=True)
    print(f"{tried} formulas, {finds} finds")
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
