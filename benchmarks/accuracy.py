"""Generated eager Functions against the composite under autograd: the largest errors in float32.

    python benchmarks/accuracy.py specs/*.yaml
    python benchmarks/accuracy.py --densities     those of the distributions of sympy.stats
    python benchmarks/accuracy.py --written       of formulas as people write them

Values and first derivatives of what is pointwise, computed by torch where symgrad measures forms, and compared with
the truth. Errors are in ulp of the true value, less what an ulp in each input would change (`options.precision`); `inf`
is a result that is not finite where the truth is. Where a tensor is beyond 1e18 nothing counts, unless its domain names
such values. A row says `worse` where the composite is more accurate.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import symgrad
from symgrad.accuracy.evaluate import FLOAT32
from symgrad.accuracy.measure import Judge
from symgrad.compiler.compile import compile_operation
from symgrad.compiler.workbench import Workbench
from symgrad.parse import parse_formulas
from symgrad.targets.torch.composite import load_composite
from symgrad.targets.torch.figures import decided, pointwise_choices
from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.settings import variant_at

GOOD = 4.0  # ulp
SMALLEST = math.ldexp(1.0, FLOAT32.min_exponent - 1)
DTYPES = {"float": torch.float32, "int": torch.int64, "bool": torch.bool}

# Formulas as people write them, where `s` is positive: expanded squares, sums that cancel, numbers first.
WRITTEN = {
    "mean_of_squares": "(a**2 + b**2) / 2 - (a + b)**2 / 4",
    "expanded_cube": "3*a*b**2 + a**3 - 3*a**2*b - b**3",
    "expanded_huber": "where(abs(a - b) < 1, (a**2 - 2*a*b + b**2) / 2, abs(a - b) - 1/2)",
    "expanded_gaussian": "-(x**2 - 2*x*m + m**2) / (2*s**2) - log(s) - log(2*pi) / 2",
    "log_of_exponentials": "log(exp(x)/2 + exp(-x)/2)",
    "one_less_square_of_cos": "1 - cos(x)**2",
    "sine_of_difference": "sin(a)*cos(b) - cos(a)*sin(b)",
    "angle_between": "acos(sin(a)*sin(b) + cos(a)*cos(b))",
    "extrema_of_numbers_first": "min(2, max(0, x))",
    "comparison_of_a_number_first": "where(1 >= abs(x), x**2 / 2, abs(x) - 1/2)",
    "two_less_erfc": "2 - erfc(x)",
}


@dataclass(frozen=True)
class Quantity:
    """An output, or its derivative in a tensor, by their places; `judge` knows its true values."""

    output: int
    tensor: int | None
    judge: Judge
    calls: Mapping[int, tuple[list[Tensor], list[Any]]]  # tensors and hyperparameters, by index of the point


def quantities(layout: Layout) -> Iterator[Quantity]:
    """What is pointwise, in every variant."""
    spec, bench = layout.spec, Workbench(layout.operation.program)
    tensors, outputs = [t.name for t in spec.tensors], [o.name for o in spec.outputs]
    for decisions, variant in decided(layout):
        for output, tensor, choice, _ in pointwise_choices(variant):
            judge = bench.judge(choice.formula)
            calls = {}
            for reference in judge.references(FLOAT32):
                point = judge.sample.points[FLOAT32][reference.index]
                settings = [point.get(layout.symbol(h.name), decisions[h.name]) for h in spec.hyperparameters]
                if variant_at(layout, settings) is variant:
                    calls[reference.index] = (
                        [filled(t, point.get(layout.symbol(t.name))) for t in spec.tensors],
                        settings,
                    )
            place = None if tensor is None else tensors.index(tensor)
            yield Quantity(outputs.index(output), place, judge, calls)


def filled(tensor: Any, value: Any) -> Tensor:
    """A small tensor of one value."""
    shape = (16,) if tensor.shape is None else tuple(n if isinstance(n, int) else 4 for n in tensor.shape)
    return torch.full(shape, 1.0 if value is None else value).to(DTYPES[tensor.dtype])


def error(function: Callable[..., Any], quantity: Quantity) -> float:
    """The largest error of a function's results in ulp."""
    worst = 0.0
    for reference in quantity.judge.references(FLOAT32):
        if reference.index in quantity.calls and not reference.boolean and not reference.far:
            found = result(function, quantity, *quantity.calls[reference.index])
            worst = max(worst, *(reference.error(value, SMALLEST) for value in found.unique().tolist()))
    return worst


def result(
    function: Callable[..., Any], quantity: Quantity, tensors: Sequence[Tensor], settings: Sequence[Any]
) -> Tensor:
    """The value or derivative at one point."""
    leaves = [t.clone().requires_grad_(quantity.tensor == k) for k, t in enumerate(tensors)]
    outputs = function(*leaves, *settings)
    chosen = outputs[quantity.output] if isinstance(outputs, tuple) else outputs
    if quantity.tensor is None:
        return chosen.detach()
    # Of a smaller tensor the gradient is a sum: the cotangent is 1 for one element of the output.
    cotangent = torch.zeros_like(chosen)
    cotangent.view(-1)[0] = 1
    (gradient,) = torch.autograd.grad(chosen, leaves[quantity.tensor], cotangent, materialize_grads=True)
    return gradient.flatten()[:1]


def main() -> None:
    """Print one row per spec: the worst value and the worst derivative, generated and of the composite."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("specs", nargs="*", type=Path)
    parser.add_argument("--densities", action="store_true", help="logarithms of the densities of sympy.stats")
    parser.add_argument("--written", action="store_true", help="formulas as people write them")
    arguments = parser.parse_args()
    operations = map(symgrad.op, map(str, arguments.specs))
    if arguments.densities:
        import sympy_corpus

        operations = chain(operations, (density() for _, density in sympy_corpus.densities()))
    if arguments.written:
        operations = chain(operations, map(as_written, WRITTEN))
    rows = [row for operation in operations if (row := measured(operation)) is not None]
    good = sum(max(own) <= GOOD for own, _ in rows)
    print(f"within {GOOD:g} ulp: {good} of {len(rows)} generated, {sum(max(c) <= GOOD for _, c in rows)} composites")


def as_written(name: str) -> symgrad.Operation:
    """An operation of `WRITTEN`."""
    names = dict.fromkeys(re.findall(r"\b[a-z]\b", WRITTEN[name]))
    return symgrad.op(name, y=WRITTEN[name], tensors={n: {"domain": "(0, oo)"} if n == "s" else None for n in names})


def measured(operation: symgrad.Operation) -> tuple[list[float], list[float]] | None:
    """The largest errors of values and of derivatives, generated and of the composite; None if nothing is pointwise."""
    spec = operation.spec
    layout = Layout(compile_operation(parse_formulas(spec)))
    functions = operation, load_composite(layout.operation)
    found: list[list[float]] = [[], []]
    for quantity in quantities(layout):
        if quantity.tensor is None or spec.tensors[quantity.tensor].name not in spec.gradients:
            found[quantity.tensor is not None].append([error(f, quantity) for f in functions])  # type: ignore[arg-type]
    if not any(found):
        return None
    own, theirs = ([max((pair[k] for pair in part), default=0.0) for part in found] for k in (0, 1))
    worse = any(a > max(b, 0.5) + 0.5 for a, b in zip(own, theirs, strict=True))
    texts = [f"{a:8.3g} {b:8.3g}" for a, b in zip(own, theirs, strict=True)]
    print(f"{spec.op:28} value {texts[0]}   derivatives {texts[1]}{'   worse' if worse else ''}", flush=True)
    return own, theirs


if __name__ == "__main__":
    main()
