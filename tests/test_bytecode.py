"""Compiled templates: kept beside the templates, read again, compiled anew for another text; no folder is needed."""

from __future__ import annotations

from pathlib import Path

import pytest
from effort import calls
from jinja2 import Environment, FileSystemLoader

from symgrad.bytecode import TemplateCode


def rendered(folder: Path, code: Path) -> str:
    return Environment(loader=FileSystemLoader(folder), bytecode_cache=TemplateCode(code)).get_template("a").render()


@pytest.fixture(autouse=True)
def may_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", False)


def test_a_template_is_compiled_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("{% for i in (1, 2) %}{{ i }}{% endfor %}")
    first = calls(lambda: rendered(tmp_path, tmp_path / "code"))
    assert calls(lambda: rendered(tmp_path, tmp_path / "code")) < first / 2
    assert rendered(tmp_path, tmp_path / "code") == "12"


def test_a_changed_template_is_compiled_anew(tmp_path: Path) -> None:
    for text in ("one", "two"):
        (tmp_path / "a").write_text(text)
        assert rendered(tmp_path, tmp_path / "code") == text


def test_what_is_kept_and_broken_is_compiled_anew(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    rendered(tmp_path, tmp_path / "code")
    (kept,) = (tmp_path / "code").iterdir()
    kept.write_bytes(b"")
    assert rendered(tmp_path, tmp_path / "code") == "one"


def test_a_folder_that_cannot_be_written_is_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    (tmp_path / "file").write_text("")
    assert rendered(tmp_path, tmp_path / "file" / "code") == "one"


def test_nothing_is_kept_where_python_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    (tmp_path / "a").write_text("one")
    assert rendered(tmp_path, tmp_path / "code") == "one"
    assert not (tmp_path / "code").exists()
