"""Results of all pairs of dtypes, with dimensions and without, are the composite's."""

from __future__ import annotations

import itertools

import pytest
import torch
from compiled import compiled_text
from torch import Tensor

from symgrad.ops.functions import FUNCTIONS
from symgrad.ops.functions.row import Function

KINDS = (torch.uint8, torch.int32, torch.int64, torch.bool, torch.float16, torch.bfloat16, torch.float32, torch.float64)
COARSE = {torch.float16: 2e-2, torch.bfloat16: 8e-2, torch.float64: 1e-9}
APART = (
    *("isnan", "isinf", "isfinite"),  # truth values
    *("polygamma", "besselj", "bessely", "besseli", "besselk"),  # of an order
    "nan_to_num",
    "binomial",  # one of its parts has the dtype of both, another that of floats made of one
    "lambertw_lower",  # of integers the composite has no number at 0, where the limit is -oo
)

ROWS = [
    row
    for row in FUNCTIONS.values()
    if not (row.internal or row.orders or row.name in APART) and row.required in (1, 2)
]


def of_row(row: Function) -> str:
    return f"{row.name}(x) * y" if row.required == 1 else f"{row.name}(x, y)"


def is_cheap(row: Function) -> bool:
    return row.definition is None and row.cost < 4


CHEAP = [of_row(row) for row in ROWS if is_cheap(row)]
DEAR = [of_row(row) for row in ROWS if not is_cheap(row)]

OTHERS = [
    "exp(x) + y",
    "x / y",
    "x**2 / 3 + y",
    "-x * y",
    "x - x + y",
    "x**0.5 * y",
    "where(x > 0, 0.5, y)",
    "where(x > 0, exp(y), x)",
    "where(x / 3 < 1, x * y, y)",
    "clamp(x, -1, 0) * y",
    "asinh(x / (1 + exp(y)))",
    "max(x, 0.5) * y",
    "sum(x) * y",
    "sum(x) + exp(y)",
    "sum(x * y) / (sum(y) + 0.5)",
    "0.5 * sum(x**2) + sum(y)",
    "mean(x * y, dim=-1)",
    "softmax(x, dim=-1) * y",
    "cumsum(x, dim=-1) * y",
    "sort(x).values * y",
    "cat([x, y], dim=0)",
]


def drawn(kind: torch.dtype, row: Function | None, seed: int) -> Tensor:
    """Two numbers where the function is defined, as near as the dtype has them."""
    low, high = row.sample if row is not None else (-2.0, 2.0)
    values = low + (high - low) * torch.rand(2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    if kind == torch.bool:
        return torch.tensor([True, False])
    if not kind.is_floating_point:
        values = values.abs().round()
    return values.to(kind)


def hold(formula: str, row: Function | None = None) -> None:
    item = compiled_text(f"op: mixed\ntensors: {{x: , y: }}\noutputs: {{out: '{formula}'}}\n")
    held = 0
    for *kinds, first, second in itertools.product(KINDS, KINDS, (True, False), (True, False)):
        whole = [drawn(kind, row, k) for k, kind in enumerate(kinds)]
        tensors = [t if several else t[0].clone() for t, several in zip(whole, (first, second), strict=True)]
        try:
            right = item.composite(*tensors)
        except (RuntimeError, NotImplementedError):  # torch has it not in these dtypes
            continue
        own = item.function(*tensors)
        assert (own.dtype, own.shape) == (right.dtype, right.shape), (formula, tensors)
        near = max(COARSE.get(kind, 2e-4) for kind in (right.dtype, *kinds))
        assert torch.allclose(own.double(), right.double(), near, near, equal_nan=True), (formula, tensors, own, right)
        held += 1
    assert held >= 64


@pytest.mark.parametrize("formula", OTHERS)
def test_mixes_of_dtypes_in_formulas_have_the_composites_results(formula: str) -> None:
    hold(formula)


@pytest.mark.parametrize("formula", CHEAP)
def test_mixes_of_dtypes_in_functions_have_the_composites_results(formula: str) -> None:
    hold(formula, FUNCTIONS[formula.partition("(")[0]])


@pytest.mark.nightly
@pytest.mark.parametrize("formula", DEAR)
def test_mixes_of_dtypes_in_dear_functions_have_the_composites_results(formula: str) -> None:
    hold(formula, FUNCTIONS[formula.partition("(")[0]])
