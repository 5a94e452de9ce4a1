"""Operations as decorated functions, which tests read from this file and import."""

from typing import Literal

import torch
from torch import abs, where

import symgrad


@symgrad.op
def huber_of_ways(input, target: symgrad.constant, *, delta: float = 1.0):
    """Huber loss of each element.

    Reference: Huber, 1964
    """
    d = input - target  # the residual
    return where(
        abs(d) < delta,  # near
        d**2 / 2,
        delta * (abs(d) - delta / 2),
    )


@symgrad.op(module={"parameters": {"beta": 1.0}}, options={"save": "memory"}, no_grad=["gate"])
def gated(
    x: symgrad.tensor["N", "C"](doc="the input"),  # noqa: F821
    beta: symgrad.tensor["C"](domain="(0, oo)"),  # noqa: F821
    mask: symgrad.boolean,
    bias: torch.Tensor = 0,
    *,
    mode: Literal["hard", "soft"] = "soft",
    p: symgrad.hyperparameter(type=float, domain="(0, oo)") = 2.0,
):
    """Gate."""
    s = torch.sigmoid(beta * x)
    y = where(mask, x * s**p, x) + bias
    gate = where(mode == "soft", s, where(s > 0.5, 1, 0))
    return y, gate
