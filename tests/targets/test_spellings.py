"""Every spelling of every row is a template: an expression of Python in which only holes stand for others."""

from __future__ import annotations

import pytest

from symgrad.lower.code import words
from symgrad.ops.functions import FUNCTIONS
from symgrad.ops.tensors import TENSOR_OPS
from symgrad.targets.cpp.spellings import SPELLINGS as CPP
from symgrad.targets.jax.spellings import JAX
from symgrad.targets.mlx.spellings import MLX
from symgrad.targets.torch.fusions import SPELLING as FUSED
from symgrad.targets.triton.spellings import SPELLINGS as TRITON

TABLES = {
    "torch": [*(row.torch for row in (*FUNCTIONS.values(), *TENSOR_OPS.values())), *FUSED.values()],
    "python": [row.python for row in FUNCTIONS.values()],
    "arrays": [t for s in (JAX, MLX) for own in (s.functions, s.operations, s.differentiated) for t in own.values()],
    "cpp": [text for row in CPP.values() for text in (row.lanes, row.number)],
    "triton": [row.text for row in TRITON.values()],
}
MODULES = {
    "torch": {"torch", "F", "rt", "_special"},
    "python": {"math", "rt", "torch", "_special", *("abs", "float", "max", "min", "round")},
    "arrays": {"jnp", "jax", "mx", "rt", "special"},
}


@pytest.mark.parametrize("target", TABLES)
def test_every_spelling_is_a_template(target: str) -> None:
    read = frozenset[str]().union(*map(words, TABLES[target]))
    assert read <= MODULES.get(target, read), read
