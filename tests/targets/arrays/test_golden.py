"""Golden numbers are the truth, say where it is ill conditioned or none, and keep to the ranges of a spec."""

from __future__ import annotations

import mpmath
import pytest
from compiled import compiled_text

from symgrad.targets.arrays.golden import golden
from symgrad.targets.arrays.layout import Layout
from symgrad.targets.jax.spellings import JAX
from symgrad.testing.arrays import Golden, untrue


def points(text: str) -> list[Golden]:
    """The golden points of an operation."""
    layout = Layout(compiled_text(text).operation, JAX)
    return [eval(row, {"Golden": Golden}) for row in golden(layout)]


def test_values_and_gradients_of_a_tensor_operation_are_the_truth() -> None:
    found = points("\nop: f\ntensors: {x: }\noutputs: {y: 'logsumexp(x, dim=-1)'}\n")
    assert {max(map(abs, p.arguments[0])) > 100 for p in found} == {True, False}
    for p in found:
        rows, width = p.shapes[0]
        for r in range(rows):
            row = p.arguments[0][r * width : (r + 1) * width]
            total = mpmath.fsum(mpmath.exp(x) for x in row)
            assert untrue([float(mpmath.log(total))], [p.values[0][r]], 1e-7) == ""
            slopes = [float((r + 1) * mpmath.exp(x) / total) for x in row]
            known = p.gradients["x"][r * width : (r + 1) * width]
            assert untrue(slopes, known, 1e-6) == ""


def test_what_rounding_of_the_arguments_moves_is_asked_to_be_finite() -> None:
    found = points("\nop: f\ntensors: {x: }\noutputs: {y: sin(x)}\n")
    assert not any(v is ... for v in found[0].values[0])
    assert all(v is ... for v in found[2].values[0])
    assert untrue([float("nan")], [...]) and not untrue([0.3], [...])


def test_what_is_beyond_float32_is_not_asked_for() -> None:
    (*_, largest) = points("\nop: f\ntensors: {x: }\noutputs: {y: exp(x)}\n")
    assert {type(v) for v in largest.values[0]} <= {type(None), float}
    assert None in largest.values[0]


def test_what_was_declared_has_several_elements_where_that_is_few() -> None:
    found = points(
        "\nop: f\ntensors: {x: {shape: [B, T, S]}, w: {shape: [S]}}\noutputs: {y: 'softmax(x, dim=-1) * w'}\n"
    )
    assert {tuple(p.shapes) for p in found} == {((1, 3, 3), (3,))}


def test_what_is_drawn_has_no_truth_in_the_formula() -> None:
    assert not points("\nop: f\ntensors: {x: }\nhyperparameters: {seed: 0}\noutputs: {y: 'dropout(x, 0.5, seed)'}\n")


def test_a_range_of_the_spec_is_kept() -> None:
    text = "\nop: f\ntensors: {x: }\noutputs: {y: exp(x)}\ntest: {ranges: {x: [0, 2]}}\n"
    assert all(0 <= x <= 2 for p in points(text) for x in p.arguments[0])


@pytest.mark.parametrize(("found", "truth"), [(1.001, 1.0), (float("inf"), 2.0), (float("nan"), 0.0)])
def test_an_untrue_number_is_told(found: float, truth: float) -> None:
    assert untrue([found], [truth])
