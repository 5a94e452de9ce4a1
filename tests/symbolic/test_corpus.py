"""A sample of the corpus of SymPy's expressions: values and derivatives equal SymPy's own to 50 digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import pytest
import sympy as sp

from benchmarks import sympy_corpus
from benchmarks.sympy_corpus import X, corpus, densities, judge
from symgrad import Operation
from symgrad.accuracy.evaluate import exact
from symgrad.compiler.compile import compile_operation
from symgrad.ir.expr import Expr
from symgrad.parse import parse_formulas
from symgrad.targets.torch.figures import decided, pointwise_choices
from symgrad.targets.torch.layout import Layout

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


# Where terms of two variables cancel twice.
_HARD = {"FDistribution", "ExGaussian"}


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "density"), [case for case in densities() if case[0].split()[-1] not in _HARD])
def test_log_densities_and_their_derivatives_are_within_4_ulp(name: str, density: Callable[[], Operation]) -> None:
    layout = Layout(compile_operation(parse_formulas(density().spec)))
    measured = set()
    for _, variant in decided(layout):
        for output, tensor, choice, _ in pointwise_choices(variant):
            score = choice.chosen.float32
            assert score.nonfinite == 0, (output, tensor)
            assert score.ulp <= 4, (output, tensor)
            measured.add(tensor)
    assert None in measured, "the value is of one region"
    assert len(measured) > len(layout.differentiable) or name.endswith("Uniform"), "of which some partials are 0"
