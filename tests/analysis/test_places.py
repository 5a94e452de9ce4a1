"""Integers that name places are drawn so that they name some, also where a number is added to them."""

from __future__ import annotations

import pytest
from compiled import compiled_text

from symgrad.analysis.places import places, shifts
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ops.tensors.shaping import unsqueeze
from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.samples import shapes

ROWS, LABELS = symbol("x", "tensor", ("B", "N")), symbol("k", "int_tensor", ("B",))


def picked(index: Expr) -> Expr:
    return make("take_along", ROWS, unsqueeze(index, -1), dim=-1)


@pytest.mark.parametrize(("added", "expected"), [((0,), (0, 0)), ((1,), (0, 1)), ((-2, 1), (-2, 1))])
def test_what_is_added_to_labels_shifts_their_places(added: tuple[int, ...], expected: tuple[int, int]) -> None:
    formulas = [picked(LABELS + n) for n in added]
    assert places(formulas) == {LABELS: frozenset({"N"})}
    assert shifts(formulas) == {LABELS: expected}


def test_samples_stay_inside_of_the_rows() -> None:
    item = compiled_text(
        "op: f\ntensors: {x: {shape: [B, N]}, k: {shape: [B], dtype: int}}\n"
        'outputs: {y: "gather(x, 1, k[:, None] + 1)[:, 0] - gather(x, 1, k[:, None])[:, 0]"}\n'
    )
    least, most = item.spec.test.ranges["k"]
    assert least == 0 and most + 1 < 2
    drawn, _ = shapes(Layout(item.operation))
    assert all(rows[1] >= most + 2 for rows, _ in drawn)
