"""What SymPy searches for without end is given up, after the same work everywhere."""

from __future__ import annotations

import builtins
import io
import sys

import pytest
import sympy as sp
from sympy.core import random

from symgrad.symbolic.bounded import bounded

IMPORT = builtins.__import__
X, T = sp.symbols("x t", real=True)


def test_an_integral_without_a_closed_form_is_left_as_it_is() -> None:
    hard = sp.Integral(sp.exp(-(T**3)) * sp.sin(T) / (1 + T**7), (T, 0, X))
    assert bounded(hard.doit, hard, 100_000) is hard


def test_what_is_found_within_the_bound_is_given_and_nothing_is_left_behind() -> None:
    before = sys.gettrace()
    easy = sp.Integral(T**2, (T, 0, X))
    assert bounded(easy.doit, easy) == X**3 / 3
    assert sys.gettrace() is before


def test_a_handler_of_exceptions_does_not_hold_it_up() -> None:
    def endless() -> str:
        while True:
            try:
                len(str(X))
            except Exception:
                continue

    assert bounded(endless, "given up", 1000) == "given up"


def test_a_destructor_that_is_interrupted_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[object]()
    monkeypatch.setattr(sys, "unraisablehook", seen.append)

    def nothing() -> None: ...

    class Short:
        def __del__(self) -> None:
            nothing()

    def endless() -> str:
        while True:
            Short()
            nothing()

    for most in range(1000, 1004):  # one of which ends in the destructor
        assert bounded(endless, "given up", most) == "given up"
    assert not seen and sys.unraisablehook == seen.append


def test_what_was_found_before_is_not_found_with_less_work() -> None:
    """SymPy keeps what it finds, so the second time took a fifth of the calls."""
    powers = sp.log(X**T + T**X - (X * T) ** X) * (T / X + 1) ** 2 / (X**T + 1)
    most = next(m for m in range(2_000, 200_000, 2_000) if bounded(powers.expand, None, m) is not None)
    assert most > 10_000
    assert powers.expand() != powers
    assert bounded(powers.expand, None, most * 2 // 3) is None


def test_sympy_draws_the_same_numbers_each_time_and_others_go_on_drawing_theirs() -> None:
    random.rng.seed(1)
    theirs = random.rng.random()
    random.rng.seed(1)
    first = bounded(random.rng.random, -1.0)
    assert bounded(random.rng.random, -1.0) == first != theirs
    assert random.rng.random() == theirs


def test_imports_are_not_counted() -> None:
    def imports() -> str:
        import this

        return this.s[:4]

    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, "this", raising=False)
        patch.setattr(sys, "stdout", io.StringIO())
        assert bounded(imports, "given up", 20) == "Gur "
    assert builtins.__import__ is IMPORT
