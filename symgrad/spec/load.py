"""Reading a spec, from a file or a text."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from symgrad.errors import Location, Mistake, SpecError
from symgrad.spec.checks import build_spec
from symgrad.spec.grammar import SPEC
from symgrad.spec.model import Spec
from symgrad.spec.readers import Report
from symgrad.spec.yaml_source import MAX_BYTES, Document, decode, read_yaml

__all__ = ["load_each", "load_spec", "load_specs", "parse_spec", "spec_in"]


def load_spec(path: str | os.PathLike[str]) -> Spec:
    """The spec in the file ``path``, which is YAML, or Python with one function under `@symgrad.op`.

    Raises SpecError with all its mistakes; also where the file cannot be read.
    """
    specs = load_specs(path)
    if len(specs) > 1:
        names = ", ".join(spec.op for spec in specs)
        message = f"{len(specs)} operations in this file: {names}; load_specs() gives all of them"
        raise SpecError([Mistake(os.fspath(path), Location(1, 1), "", message)])
    return specs[0]


def load_specs(path: str | os.PathLike[str]) -> list[Spec]:
    """The specs in the file ``path``: one of YAML, as many of Python as functions stand under `@symgrad.op`.

    Raises SpecError with all their mistakes; also where the file cannot be read.
    """
    found = load_each(path)
    mistakes = [mistake for spec in found if isinstance(spec, SpecError) for mistake in spec.mistakes]
    if mistakes:
        raise SpecError(mistakes)
    return [spec for spec in found if isinstance(spec, Spec)]


def load_each(path: str | os.PathLike[str]) -> list[Spec | SpecError]:
    """What ``load_specs`` gives, with its mistakes in place of a spec that has some.

    Raises SpecError where the file cannot be read, or has no spec.
    """
    name = os.fspath(path)
    if not name.endswith(".py"):
        return [parse_spec(_read(name), name)]
    from symgrad.spec.python_source import read_functions  # only Python files need it

    return read_functions(decode(_read(name), name), name)


def parse_spec(text: str | bytes, path: str = "<spec>") -> Spec:
    """The spec that ``text`` (bytes: in UTF-8) writes; ``path`` is what messages call it.

    Raises SpecError with all its mistakes.
    """
    return spec_in(read_yaml(text if isinstance(text, str) else decode(text, path), path))


def spec_in(document: Document) -> Spec:
    """The spec that a document writes. Raises SpecError with all its mistakes."""
    report = Report(document)
    spec = build_spec(SPEC.read(document.root, (), report) or {}, document.source, report)
    if report.mistakes:
        raise _with_formula_mistakes(report.mistakes, spec)
    return spec


def _with_formula_mistakes(mistakes: Iterable[Mistake], spec: Spec) -> SpecError:
    """What is wrong with a spec, and with its formulas as far as that can be told."""
    known = list(mistakes)
    places = {m.location for m in known}
    return SpecError([*known, *(m for m in _formula_mistakes(spec) if m.location not in places)])


def _formula_mistakes(spec: Spec) -> tuple[Mistake, ...]:
    """What is wrong with the formulas of a spec that has other mistakes, as far as that can be told.

    What may only follow from those (a name whose declaration was refused) is left out.
    """
    from symgrad.parse import parse_formulas  # which reads specs itself

    declared = frozenset(re.findall(r"^\s*[\"']?(\w+)[\"']?\s*:|[{,]\s*(\w+)\s*:", spec.text, re.MULTILINE))
    names = {prefix + name for pair in declared for name in pair for prefix in ("", "grad_")}
    try:
        parse_formulas(spec)
    except SpecError as error:
        return tuple(m for m in error.mistakes if not _may_follow(m.message, names))
    return ()


def _may_follow(message: str, declared: set[str]) -> bool:
    unknown = re.match(r"unknown name '(\w+)'", message)
    return unknown[1] in declared if unknown else "depends on no tensor" in message


def _read(name: str) -> bytes:
    """At most one byte more than a spec may have. Raises SpecError."""
    try:
        if not stat.S_ISREG(Path(name).stat().st_mode):  # a folder, or a pipe that could block for ever
            raise _unreadable(name, "not a file; give the path of a spec")
        with open(name, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _unreadable(name, (error.strerror or "cannot be read").lower()) from None
    except ValueError:  # a NUL in the name
        raise _unreadable(name, "not a path") from None


def _unreadable(name: str, message: str) -> SpecError:
    path = name.encode("utf-8", "backslashreplace").decode()
    return SpecError([Mistake(path, Location(1, 1), "", message)])
