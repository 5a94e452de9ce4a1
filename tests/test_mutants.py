"""The checks of a generated test notice mistakes in the module: a dozen here, all of them with
``python -m tests.mutants`` or ``pytest -m mutants``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import EQUIVALENT, MODULES, SHARED, Mutant, generated, killer, mutants, of_module

SAMPLED = ("swish", "softshrink", "split_signs")


def _dozen() -> list[Mutant]:
    """Mistakes of every kind: a few of each file."""
    found = mutants(SAMPLED)
    return found[:: len(found) // 12]


@pytest.fixture(scope="module")
def some() -> list[Mutant]:
    return _dozen()


def test_a_dozen_mistakes_are_noticed(some: list[Mutant], tmp_path: Path) -> None:
    assert len(some) >= 12
    survivors = [str(m) for k, m in enumerate(some) if killer(m, tmp_path / f"m{k}", slow=False) is None]
    assert survivors == []


def test_what_is_as_generated_passes(tmp_path: Path) -> None:
    for op in SAMPLED:
        right = Mutant(op, f"{op}.py", "none", lambda text: text)
        assert killer(right, tmp_path / op, slow=False) is None


def test_mistakes_that_change_nothing_are_ones_that_can_be_made() -> None:
    made = {str(m) for op in MODULES for m in of_module(op, generated(op).module)}
    made |= {f"{op}: {mistake}" for op, mistake, *_ in SHARED}
    assert set(EQUIVALENT) <= made


@pytest.mark.mutants
def test_all_mistakes_are_noticed(tmp_path: Path) -> None:
    found = mutants(MODULES)
    assert len(found) >= 60
    assert [str(m) for k, m in enumerate(found) if killer(m, tmp_path / f"m{k}") is None] == []


def test_what_is_changed_stands_in_the_files() -> None:
    for op in sorted({"fused", *(op for op, *_ in SHARED)}):
        item = generated(op)
        texts = {f"{op}.py": item.module, **item.shared, **item.passes}
        for mutant in mutants((op,)):
            assert mutant.make(texts[mutant.file]) != texts[mutant.file], str(mutant)
