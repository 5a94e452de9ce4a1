"""Declared dimensions, and sizes that agree with them."""

from __future__ import annotations

import pytest

from symgrad.spec.shapes import MAX_ELEMENTS, dims_fault, size_fault


@pytest.mark.parametrize("dims", [(), ("N",), ("...",), ("...", "N", 3), ("N", "N"), ("pi",), (1,), (4096, 4096)])
def test_dimensions_are_sizes_and_names_perhaps_after_an_ellipsis(dims: tuple[int | str, ...]) -> None:
    assert dims_fault(dims) is None


@pytest.mark.parametrize(
    "dims", [("N", "..."), ("...", "..."), ("2a",), ("a b",), ("lambda",), ("N",) * 17, ("N", 10**12)]
)
def test_what_is_no_shape_is_told(dims: tuple[int | str, ...]) -> None:
    assert dims_fault(dims)


@pytest.mark.parametrize(
    ("sizes", "dims", "fits"),
    [
        ((2, 3), None, True),
        ((2, 3), ("N", "C"), True),
        ((2, 3), ("N", 3), True),
        ((2, 3), ("N", 4), False),
        ((2, 3), ("N", "N"), False),
        ((3,), ("N", "C"), False),
        ((1, 2, 3), ("N", "C"), False),
        ((1, 2, 3), ("...", "C"), True),
        ((), ("...", "C"), False),
        ((MAX_ELEMENTS, 2), None, False),
    ],
)
def test_sizes_agree_with_dimensions(sizes: tuple[int, ...], dims: tuple[int | str, ...] | None, fits: bool) -> None:
    assert (size_fault(sizes, dims, {}) is None) is fits


def test_a_name_has_one_size_in_all_tensors() -> None:
    bound: dict[str, int] = {}
    assert size_fault((2, 3), ("N", "C"), bound) is None
    assert bound == {"N": 2, "C": 3}
    assert "3" in (size_fault((4,), ("C",), bound) or "")
