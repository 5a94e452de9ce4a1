"""Reading and writing: several files at once, whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from symgrad.errors import SymgradError

__all__ = ["FileError", "create", "read", "read_text", "remove", "write"]

_ANY_WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


class FileError(SymgradError):
    """A file that cannot be read or written, or must not be; the message starts with its path."""


def create(path: Path, text: str) -> None:
    """Write a new file, whole or not at all. Raises FileError; also if there is something already."""
    if os.path.lexists(path):
        raise FileError(f"{path.as_posix()}: exists already")
    write({path: text})


def read(path: Path) -> bytes | None:
    """What is in a file; None where there is none. Raises FileError."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise _failure(path, "a folder stands where the file should be")
        if not stat.S_ISREG(mode):  # reading a pipe could block for ever
            raise _failure(path, "not a regular file")
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _failure(path, error) from None


def read_text(path: Path) -> str:
    """What is in a file, as a text that stands for whatever bytes; empty where there is none. Raises FileError."""
    return (read(path) or b"").decode("utf-8", "replace")


@dataclass(frozen=True)
class _Staged:
    """A new text, complete on disk beside the file that it is going to replace."""

    target: Path
    temporary: Path
    before: bytes | None


def write(texts: Mapping[Path, str]) -> None:
    """Write all files or none. Raises FileError."""
    staged: list[_Staged] = []
    try:
        for path, text in texts.items():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                # A link stays a link: the file it points to gets the new text.
                staged.append(_stage(Path(os.path.realpath(path)), text.encode("utf-8")))
            except OSError as error:
                raise _failure(path, error) from None
        _replace(staged)
    finally:
        for file in staged:
            with suppress(OSError):
                file.temporary.unlink(missing_ok=True)


def remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError as error:
        raise _failure(path, error) from None


def _stage(target: Path, data: bytes) -> _Staged:
    before = read(target)
    mode = None if before is None else stat.S_IMODE(target.stat().st_mode)
    if mode is not None and not mode & _ANY_WRITE:  # replacing would ignore what its owner asked for
        raise _failure(target, "read-only")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            temporary.chmod(mode)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return _Staged(target, temporary, before)


def _replace(staged: list[_Staged]) -> None:
    """Put all staged files in place; if one cannot be, put back those that were."""
    done: list[_Staged] = []
    try:
        for file in staged:
            try:
                os.replace(file.temporary, file.target)
            except OSError as error:
                raise _failure(file.target, error) from None
            done.append(file)
    except BaseException:
        for file in done:
            with suppress(OSError, FileError):
                _restore(file)
        raise


def _restore(file: _Staged) -> None:
    if file.before is None:
        file.target.unlink()
    else:
        os.replace(_stage(file.target, file.before).temporary, file.target)


def _failure(path: Path, problem: str | OSError) -> FileError:
    if isinstance(problem, OSError):
        problem = (problem.strerror or "cannot be written").lower()
    return FileError(f"{path.as_posix()}: {problem}")
