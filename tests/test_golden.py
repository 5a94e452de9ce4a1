"""Golden files: the exact text of the modules of tests/specs. `pytest tests/test_golden.py --update` rewrites them."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiled import OWN_SPECS, compiled

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("path", OWN_SPECS, ids=lambda p: p.stem)
def test_the_module_reads_as_it_did(path: Path, update: bool) -> None:
    golden = GOLDEN / f"{path.stem}.py"
    text = compiled(path).text
    if update:
        golden.write_text(text, encoding="utf-8", newline="\n")
    assert golden.is_file(), "no golden file yet: run pytest --update"
    assert golden.read_text(encoding="utf-8") == text


def test_every_golden_file_has_its_spec() -> None:
    assert {p.stem for p in GOLDEN.glob("*.py")} == {p.stem for p in OWN_SPECS}


def test_the_specs_are_named_after_their_files() -> None:
    assert all(compiled(p).spec.op == p.stem for p in OWN_SPECS)
