"""The condition over sizes says what the explanation of a mistake says, for any declaration and any sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from symgrad.targets.torch.runtime import _runtime as rt
from symgrad.targets.torch.shape_check import Shaped, conditions

DIMS = st.lists(st.sampled_from(["A", "B", "C", 2]), max_size=3)
SIZES = st.one_of(st.none(), st.lists(st.sampled_from([2, 3]), max_size=4))


@pytest.fixture(scope="module")
def refuse() -> Any:
    return lambda op, shapes: rt.refuse_shapes(op, **shapes)


@given(tensors=st.lists(st.tuples(DIMS, st.booleans(), st.booleans(), SIZES), min_size=1, max_size=4))
def test_the_condition_holds_where_nothing_is_refused(refuse: Any, tensors: Any) -> None:
    shaped = [Shaped(f"t{k}", tuple(d), lead, sizes is None or o) for k, (d, lead, o, sizes) in enumerate(tensors)]
    given = {t.name: None if s is None else torch.empty(s) for t, (*_, s) in zip(shaped, tensors, strict=True)}
    assert eval(" and ".join(conditions(shaped)) or "True", {"rt": rt}, given) == _accepted(refuse, shaped, given)


def _accepted(refuse: Any, shaped: list[Shaped], given: dict[str, Any]) -> bool:
    try:
        refuse("op", {t.name: (given[t.name], (*(["..."] * t.leading), *t.dims)) for t in shaped})
    except ValueError:
        return False
    return True


def test_tensors_that_follow_another_are_compared_at_once() -> None:
    x = Shaped("x", ("N", "C", "T"))
    assert list(conditions([x, Shaped("w", ("C",))])) == ["x.dim() == 3", "w.shape == x.shape[1:2]"]
    assert list(conditions([Shaped("x", ("C", "T"), leading=True), Shaped("b", ("C",), optional=True)])) == [
        "x.dim() >= 2",
        "(b is None or b.shape == x.shape[-2:-1])",
    ]
    assert list(conditions([x, Shaped("y", ("N", "C", "T"))]))[1:] == ["y.shape == x.shape"]


def test_shapes_that_say_nothing_are_not_checked() -> None:
    assert not list(conditions([Shaped("x", (), leading=True)]))
