"""What a user writes, for `mypy --strict`: every way in is typed, and decorated functions stay typed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import torch

import symgrad
from symgrad import Operation


@symgrad.op
def scaled(x: torch.Tensor, target: symgrad.constant, *, factor: float = 1.0) -> torch.Tensor:
    return factor * (x - target)


@symgrad.op(module={"parameters": {"slope": 1.0}}, options={"save": "memory"})
def bent(
    x: Annotated[torch.Tensor, symgrad.tensor["N"]], slope: symgrad.tensor, *, kind: Literal["a", "b"] = "a"
) -> torch.Tensor:
    return slope * x


def used() -> list[Path]:
    ways: list[Operation] = [scaled, bent, symgrad.op("x * y"), symgrad.op("named", y="x**2"), symgrad.op(y="x**2")]
    value: torch.Tensor = scaled(torch.ones(3), torch.ones(3), factor=2.0)
    proven: bool = ways[0].prove().proven
    return bent.write("generated") if proven and value.numel() else []
