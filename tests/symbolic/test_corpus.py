"""A sample of the corpus of SymPy's expressions: values and derivatives equal SymPy's own to 50 digits."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import pytest
import sympy as sp

from benchmarks import sympy_corpus
from benchmarks.sympy_corpus import X, corpus, judge
from symgrad.accuracy.evaluate import exact
from symgrad.ir.expr import Expr

CASES = corpus()
SAMPLE = CASES[3::8][:25]


def test_the_corpus_has_two_hundred_cases_of_different_names() -> None:
    assert len(CASES) >= 200
    assert len({name for name, _ in CASES}) == len(CASES)


@pytest.mark.parametrize(("name", "made"), SAMPLE, ids=[name for name, _ in SAMPLE])
def test_values_and_derivatives_equal_sympys(name: str, made: object) -> None:
    assert not judge(name, made)


def test_the_judge_sees_a_wrong_value(monkeypatch: pytest.MonkeyPatch) -> None:
    def off(roots: list[Expr], *rest: Any) -> list[Any]:
        with mp.workdps(60):
            return [value * (1 + mp.mpf(10) ** -30) for value in exact(roots, *rest)]

    assert not judge("right", sp.sin(X) + 2)
    monkeypatch.setattr(sympy_corpus, "exact", off)
    assert "the value at" in judge("wrong", sp.sin(X) + 2)
