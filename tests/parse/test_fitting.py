"""Sizes for tensors whose shapes nobody declares: such as every operation accepts."""

from __future__ import annotations

import pytest
from compiled import compiled_text

from symgrad.parse.fitting import Fitting, sizes


def fitting(formula: str, dims: tuple[int, ...] = ()) -> tuple[Fitting, dict[str, object]]:
    dim = ", hyperparameters: {d: -1}" if "dim=d" in formula else ""
    program = compiled_text(f"{{op: f, tensors: {{x: , w: }}{dim}, outputs: {{y: '{formula}'}}}}").operation.program
    values = [{"d": d} for d in dims]
    return Fitting(list(program.outputs.values()), values), program.symbols


@pytest.mark.parametrize(
    ("formula", "x", "w", "fits"),
    [
        ("x + w", (2, 3), (3,), True),
        ("x + w", (2, 3), (2,), False),
        ("x @ w", (2, 3), (3, 4), True),
        ("x @ w", (2, 3), (2, 3), False),
        ("sum(x, dim=2) + w", (2, 3), (1,), False),
    ],
)
def test_shapes_that_contradict_each_other_are_told(
    formula: str, x: tuple[int, ...], w: tuple[int, ...], fits: bool
) -> None:
    judge, symbols = fitting(formula)
    assert (judge.conflict({symbols["x"]: x, symbols["w"]: w}) is None) is fits


@pytest.mark.parametrize("reduction", ["mean", "amax", "var"])
def test_there_is_no_mean_of_slices_that_leave_nothing(reduction: str) -> None:
    judge, symbols = fitting(f"{reduction}(x[..., 1:-1] * w[..., 1:-1], dim=-1)")
    small, large = ({symbols["x"]: shape, symbols["w"]: shape} for shape in ((3, 2), (3, 3)))
    assert judge.conflict(small) == f"a {reduction} of nothing" and judge.conflict(large) is None
    assert judge.conflict(small, may_be_empty=True) is None
    assert judge.conflict({symbols["x"]: (0, 2), symbols["w"]: (0, 2)}) is None
    others, symbols = fitting("sum(x[..., 1:-1] * w[..., 1:-1], dim=-1)")
    assert others.conflict({symbols["x"]: (3, 2), symbols["w"]: (3, 2)}) is None


@pytest.mark.parametrize("w", [(3, 4), (5, 7), (1, 2)])
def test_a_tensor_gets_a_shape_that_fits_the_one_that_is_known(w: tuple[int, int]) -> None:
    judge, symbols = fitting("x @ w")
    found = judge.shapes({symbols["w"]: w}, [symbols["x"]])
    assert found is not None
    assert found[symbols["x"]][-1] == w[0]


def test_a_shape_fits_with_each_value_of_a_hyperparameter() -> None:
    judge, symbols = fitting("softmax(x, dim=d) + w", (-1, 0, 2))
    found = judge.shapes({}, [symbols["x"], symbols["w"]])
    assert found is not None
    assert len(found[symbols["x"]]) >= 3


def test_nothing_is_found_where_nothing_fits() -> None:
    judge, symbols = fitting("x @ w")
    assert judge.shapes({symbols["w"]: ()}, [symbols["x"]]) is None


def test_few_named_dimensions_are_changed_at_once() -> None:
    found = list(sizes({"N": 5, "C": 9}, more=[7]))
    assert found[0] == {"N": 5, "C": 9}
    assert {"N": 7, "C": 9} in found and {"N": 7, "C": 7} in found
    changed = [sum(now[n] != before for n, before in (("N", 5), ("C", 9))) for now in found]
    assert changed == sorted(changed)
