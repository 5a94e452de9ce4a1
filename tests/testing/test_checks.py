"""Each check of symgrad.testing finds a Function that is broken in its way, and passes one that is right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from symgrad.testing import CHECKS, Input, Subject
from symgrad.testing.checks import run
from tests.testing.broken import BROKEN, scaled


def test_there_is_a_broken_operation_for_every_check() -> None:
    assert set(BROKEN) == set(CHECKS)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_operation_is_found(name: str) -> None:
    subject, words = BROKEN[name]
    check = CHECKS[name]
    assert check.applies(subject)
    found = run(check, subject)
    assert any(words in f.sentence for f in found), [str(f) for f in found]


RIGHT = Subject(
    "right", scaled, scaled, (Input("x"), Input("w")), residuals=None, numbers=(2, 0.5), rounded_once=(False, False)
)


@pytest.mark.parametrize("name", [c.name for c in CHECKS.values() if c.applies(RIGHT) and not c.slow])
def test_a_right_operation_passes(name: str) -> None:
    with torch.random.fork_rng():
        assert not run(CHECKS[name], RIGHT)


def test_sentences_that_differ_in_names_and_numbers_do_not_hide_another_one() -> None:
    def sentences(subject: Subject, device: str) -> Iterator[str]:
        yield from (f"grad_{name} has dtype float64, off by {k}.5 in 'y'" for k, name in enumerate("abcdefgh"))
        yield "grad_a has shape (2, 3), that of the tensor (2, 1)"

    found = run(replace(CHECKS["backward_returns"], run=sentences), RIGHT)
    assert [f.sentence.split()[2] for f in found] == ["dtype", "dtype", "shape"]
