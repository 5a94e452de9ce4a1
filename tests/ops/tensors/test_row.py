"""The table of tensor operations is complete: each row holds what the stages ask of it."""

from __future__ import annotations

import string

import pytest

from symgrad.ops.tensors import INTERNAL_ROWS, ROWS, TENSOR_OPS, TENSOR_SPELLINGS, TensorOp
from symgrad.targets.torch.operations import SPECIAL
from symgrad.targets.torch.printer import INFIX

# Rows of which only the compiler's own second derivatives are made: torch differentiates what they print.
_FIRST_ORDER = {"others_slope"}


def is_spelling(row: TensorOp) -> bool:
    """Whether a row only says what a call means, in terms of other rows."""
    return row.definition is not None and row.vjp is None and row.differentiable


def lacks(row: TensorOp) -> list[str]:
    """The facts that some stage will ask and a row does not hold."""
    if row.fields or is_spelling(row):
        return []
    found = []
    if row.differentiable and row.name not in _FIRST_ORDER:
        found += [name for name in ("vjp", "jvp") if getattr(row, name) is None]
    if row.extent is None and row.shape_of is None and row.name not in ("restore", "drop"):
        found.append("extent or shape_of")
    if not row.torch and row.name not in SPECIAL and row.name not in INFIX:
        found.append("torch")
    names = {a.name for a in row.attributes} | {"attributes", "operands", "rest"}
    for _, key, _, _ in string.Formatter().parse(row.torch):
        if key and not key.isdigit() and not key.startswith(("shape", "device")) and key not in names:
            found.append(f"what {{{key}}} in 'torch' is")
    return found


@pytest.mark.parametrize("row", TENSOR_OPS.values(), ids=lambda row: row.name)
def test_every_row_holds_what_the_stages_ask(row: TensorOp) -> None:
    assert not lacks(row), f"{row.name} lacks {', '.join(lacks(row))}"


def test_a_row_that_lacks_something_is_named() -> None:
    assert lacks(TensorOp("odd", torch="{0}.odd({wrong})")) == [
        "vjp",
        "jvp",
        "extent or shape_of",
        "what {wrong} in 'torch' is",
    ]


def test_no_name_stands_for_two_rows() -> None:
    names = [name for row in (*ROWS, *INTERNAL_ROWS) for name in (row.name, *row.aliases)]
    assert len(set(names)) == len(names) == len(TENSOR_OPS) + sum(len(row.aliases) for row in TENSOR_OPS.values())
    assert TENSOR_SPELLINGS.keys() <= set(names)


def test_fields_are_rows() -> None:
    for row in TENSOR_OPS.values():
        assert all(operation in TENSOR_OPS for _, operation in row.fields), row.name
