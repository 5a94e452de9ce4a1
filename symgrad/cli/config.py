"""The project's table: ``[tool.symgrad]`` in the nearest ``pyproject.toml`` that has one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from symgrad.errors import SymgradError, suggestion
from symgrad.resources import TARGETS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Config", "read_config"]


@dataclass(frozen=True)
class Config:
    """What a project says in its table; paths are relative to the folder that symgrad runs in.

    ``file`` is None where there is no table. What is None or empty the table does not say.
    """

    file: Path | None = None
    specs: tuple[Path, ...] = ()
    exclude: tuple[Path, ...] = ()
    out: Path | None = None
    tests: Path | None = None
    kernels: bool | None = None
    targets: tuple[str, ...] = ()


def read_config(start: Path | None = None) -> Config:
    """The table that holds for the folder ``start`` (default: the current one): its own, or the nearest above it.

    Raises SymgradError for a file that cannot be read and a table with mistakes, all of which the message names.
    """
    folder = Path(os.path.abspath(start or Path.cwd()))
    for parent in (folder, *folder.parents):
        file = parent / "pyproject.toml"
        table = _table(file)
        if table is not None:
            return _config(file, table, folder)
    return Config()


def _table(file: Path) -> dict[str, Any] | None:
    try:
        with open(file, "rb") as stream:
            tool = tomllib.load(stream).get("tool", {})
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SymgradError(f"{file.as_posix()}: {(error.strerror or 'cannot be read').lower()}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SymgradError(f"{file.as_posix()}: not TOML: {error}") from None
    table = tool.get("symgrad") if isinstance(tool, dict) else None
    return table if isinstance(table, dict) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _texts(value: Any) -> list[str] | None:
    found = value if isinstance(value, list) else [value]
    return found if found and all(_text(item) for item in found) else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _targets(value: Any) -> list[str] | None:
    found = _texts(value)
    return found if found and all(name in TARGETS for name in found) else None


# What each key holds: in words, and read; None for anything else.
_KEYS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "specs": ('a path, or a list of them, such as ["specs"]', _texts),
    "exclude": ('a path, or a list of them, such as ["specs/drafts"]', _texts),
    "out": ('a folder, such as "mypkg/ops"', _text),
    "tests": ('a folder, such as "tests/ops"', _text),
    "kernels": ("true or false", _flag),
    "targets": (f"a list of targets, of {', '.join(TARGETS)}", _targets),
}


def _config(file: Path, table: dict[str, Any], folder: Path) -> Config:
    faults = []
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in _KEYS:
            faults.append(f"unknown key {key!r}{suggestion(key, _KEYS) or '; the keys are ' + ', '.join(_KEYS)}")
            continue
        what, read = _KEYS[key]
        values[key] = read(value)
        if values[key] is None:
            faults.append(f"{key} must be {what}")
    if faults:
        name = os.path.relpath(file, folder)
        raise SymgradError("\n".join(f"{Path(name).as_posix()}: [tool.symgrad]: {fault}" for fault in faults))

    def place(text: str) -> Path:
        return Path(os.path.relpath(file.parent / text, folder))

    return Config(
        file,
        tuple(map(place, values.get("specs", ()))),
        tuple(map(place, values.get("exclude", ()))),
        place(values["out"]) if "out" in values else None,
        place(values["tests"]) if "tests" in values else None,
        values.get("kernels"),
        tuple(values.get("targets", ())),
    )
