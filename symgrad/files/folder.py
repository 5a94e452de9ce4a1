"""The generated files of a folder: which are up to date, which are left over, and how they are written anew.

Whether a file is up to date, its header says: the version and the spec's hash are those of now, and the body is
what was written. Whether headers can be believed, what all modules share says: it carries the hash of the compiler
that every file of the folder is known to come from. Where that is another one (symgrad was changed in a checkout
and kept its version), specs are compiled and texts compared.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from pathlib import Path

from symgrad.files.hashes import certificate_in, compiler_hash, unix
from symgrad.files.header import Header, project_of, read_header, render_shared, same_label, spec_label
from symgrad.files.status import FileState, Status
from symgrad.files.writing import FileError, read, read_text, remove, write

__all__ = ["Folder"]

_SUFFIXES = (".py", ".cpp", ".cu", ".h", ".metal")
_PACKAGE = "__init__.py"
_PACKAGE_BODY = '"""Operations that symgrad generated."""\n'


class Folder:
    """A folder ``out`` of generated modules; their tests are there, too, or in the folder ``tests``.

    It is a Python package: an ``__init__.py`` is written if there is none, and one of somebody else's is left alone.
    """

    def __init__(self, out: Path, tests: Path | None = None) -> None:
        self._out = out
        self._tests = out if tests is None else tests
        self._verified: set[Path] = set()

    @property
    def package(self) -> str:
        """The package that tests import modules from; empty where they stand beside them."""
        if os.path.abspath(self._tests) == os.path.abspath(self._out):
            return ""
        full = Path(os.path.abspath(self._out))
        parts = [full.name]
        while (full.parent / _PACKAGE).is_file():
            full = full.parent
            parts.insert(0, full.name)
        return ".".join(parts)

    def path(self, name: str) -> Path:
        """Where a file of this name stands."""
        return (self._tests if name.startswith("test_") else self._out) / name

    # ------------------------------------------------------------------ without compiling

    @cached_property
    def _headers(self) -> dict[Path, Header]:
        """The headers of all generated files. What cannot be read is told where its spec is compiled."""
        found = {}
        for folder in dict.fromkeys((self._out, self._tests)):
            try:
                paths = sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES)
            except OSError:
                continue
            for path in paths:
                header = _header_of(path)
                if header is not None:
                    found[path] = header
        return found

    @property
    def _shared(self) -> dict[Path, Header]:
        return {path: header for path, header in self._headers.items() if header.label is None}

    @property
    def is_known(self) -> bool:
        """Whether all files are known to come from this compiler, so that their headers can be believed."""
        stamps = {(header.is_current_version, header.source) for header in self._shared.values()}
        return stamps == {(True, compiler_hash())}

    def known(self, spec_path: str, source: str) -> list[FileState] | None:
        """How the files of a spec stand, as their headers tell it; None where it has to be compiled.

        ``source`` is the spec's hash.
        """
        if not self.is_known:
            return None
        label = spec_label(spec_path)
        own = {path: header for path, header in self._headers.items() if self._is_current(header, label, source)}
        names = next((header.names for header in own.values()), ())
        if not names or not all(self.path(name) in own or self.path(name) in self._shared for name in names):
            return None
        if any(header.names != names for header in own.values()):
            return None
        states = []
        for name in names:
            path = self.path(name)
            if path in own:
                states.append(_by_header(path, own[path]))
        self._verified.update(state.path for state in states)
        return states

    @staticmethod
    def _is_current(header: Header, label: str, source: str) -> bool:
        of_it = header.label is not None and same_label(header.label, label)
        return of_it and header.is_current_version and header.source == source

    def shared_states(self) -> list[FileState]:
        """How what all modules share stands, as far as that can be told without compiling."""
        states = [_by_header(path, header) for path, header in self._shared.items()]
        if self._headers and not os.path.lexists(self._out / _PACKAGE):
            states.append(FileState(self._out / _PACKAGE, Status.MISSING))
        return states

    # ------------------------------------------------------------------ what was compiled

    def check(self, texts: Mapping[str, str], shared: Mapping[str, str]) -> list[FileState]:
        """How the files of a spec that was compiled stand.

        ``texts`` are its files with their headers, ``shared`` the bodies of what all modules share, by name.
        Raises FileError for what can be no generated file, such as a folder, or cannot be read.
        """
        states = [_state(self.path(name), text) for name, text in self._texts(texts, shared).items()]
        self._verified.update(self.path(name) for name in texts)
        return states

    def update(self, texts: Mapping[str, str], shared: Mapping[str, str], *, force: bool = False) -> list[FileState]:
        """Write those files of a spec that was compiled that are not up to date: all of them, or none.

        Returns how they stood before. Raises FileError, with nothing changed, if a file cannot be
        written, or was edited by hand and ``force`` is false.
        """
        states, outdated = self.planned(texts, shared, force=force)
        write(outdated)
        for path, text in outdated.items():
            header = read_header(path.name, text)
            assert header is not None, "texts have headers"
            self._headers[path] = header
        return states

    def planned(
        self, texts: Mapping[str, str], shared: Mapping[str, str], *, force: bool = False
    ) -> tuple[list[FileState], dict[Path, str]]:
        """What update() would return, and the texts that it would write; it raises what that does before it writes."""
        by_path = {self.path(name): text for name, text in self._texts(texts, shared).items()}
        states = [self._with_certificate(state, by_path[state.path]) for state in self.check(texts, shared)]
        refuse_edited(states, force=force)
        return states, {state.path: by_path[state.path] for state in states if state.status is not Status.FRESH}

    def _with_certificate(self, state: FileState, wanted: str) -> FileState:
        """A file that is up to date but for a certificate is written; one that has a certificate keeps it."""
        certificate = certificate_in(wanted)
        if state.status is not Status.FRESH or not certificate:
            return state
        known = self._headers.get(state.path)
        proven = known is not None and certificate_in(known.body) == certificate
        return state if proven else FileState(state.path, Status.STALE, "without its certificate")

    def _texts(self, texts: Mapping[str, str], shared: Mapping[str, str]) -> dict[str, str]:
        """All files that a spec asks for: its own, what it shares with others, and the package's ``__init__.py``."""
        bodies = dict(shared)
        if (self._out / _PACKAGE) in self._shared or not os.path.lexists(self._out / _PACKAGE):
            bodies[_PACKAGE] = _PACKAGE_BODY
        return {**render_shared(bodies, compiler=self._stamp, known=self._shared.values()), **texts}

    @property
    def _stamp(self) -> str:
        """What shared files say now: another compiler, as long as files of it may stand in the folder."""
        old = {header.source for path, header in self._shared.items()}
        if len(self._headers) == len(self._shared):  # no modules yet
            return compiler_hash()
        return next(iter(old)) if len(old) == 1 else "unknown"

    # ------------------------------------------------------------------ the folder as a whole

    def left_over(self, specs: Iterable[str], failed: Iterable[str], *, whole: bool) -> list[FileState]:
        """Files that no spec gives any more.

        ``specs`` are the paths of those whose files were checked, ``failed`` of those that could not be. Only with
        ``whole`` are others looked for: those of specs that are gone, and shared files that no module needs.
        """
        labels, doubtful = set(map(spec_label, specs)), set(map(spec_label, failed))
        found = {}
        for path, header in self._headers.items():
            if header.label is None or path in self._verified or any(same_label(header.label, d) for d in doubtful):
                continue
            if header.label in labels:
                found[path] = f"{header.label} gives no such file now"
            elif (
                whole
                and not any(same_label(header.label, label) for label in labels)
                and not self._stands(header.label)
            ):
                found[path] = f"{header.label} is gone"
        if whole and not doubtful:
            needed = {name for path, header in self._headers.items() if path not in found for name in header.names}
            for path in self._shared:
                if path.name != _PACKAGE and path.name not in needed:
                    found[path] = "no module needs it"
        return [
            FileState(path, Status.LEFT, reason if self._headers[path].is_untouched else f"{reason}; edited by hand")
            for path, reason in sorted(found.items())
        ]

    def prune(self, states: Iterable[FileState], *, force: bool = False) -> tuple[list[Path], list[FileState]]:
        """Remove files that are left over, those edited by hand only with ``force``: what went, and what stays."""
        gone, kept = [], []
        for state in states:
            if self._headers[state.path].is_untouched or force:
                remove(state.path)
                del self._headers[state.path]
                gone.append(state.path)
            else:
                kept.append(state)
        return gone, kept

    def stamp(self, left: Collection[FileState] = ()) -> None:
        """Let shared files say that all files come from this compiler, if all were verified or are left over."""
        unsure = set(self._headers) - set(self._shared) - self._verified - {state.path for state in left}
        if unsure:
            return
        compiler = compiler_hash()
        old = {path: h for path, h in self._shared.items() if h.source != compiler and h.is_untouched}
        texts = {path: header.restamped(compiler) for path, header in old.items()}
        write(texts)

    def _stands(self, label: str) -> bool:
        """Whether the spec that a label names is there still."""
        if label.startswith("<"):
            return True
        name = label.partition("::")[0]
        project = project_of(Path(os.path.abspath(self._out)) / "x")
        return any((root / name).exists() for root in (project, Path.cwd()) if root is not None)


def refuse_edited(states: Iterable[FileState], *, force: bool) -> None:
    """Raise FileError where files were edited by hand, unless ``force``."""
    edited = [state for state in states if state.status is Status.EDITED]
    if edited and not force:
        hint = "not overwritten; move the change into the spec, or use --force"
        raise FileError("\n".join(f"{state}: {hint}" for state in edited))


def _by_header(path: Path, header: Header) -> FileState:
    """How a file stands whose header can be believed."""
    return FileState(path, Status.FRESH if header.is_untouched else Status.EDITED)


def _header_of(path: Path) -> Header | None:
    try:
        return read_header(path.name, read_text(path))
    except FileError:
        return None


def _state(path: Path, wanted: str) -> FileState:
    data = read(path)
    if data is None:
        return FileState(path, Status.MISSING)
    header, goal = read_header(path.name, unix(data.decode("utf-8", "replace"))), read_header(path.name, wanted)
    assert goal is not None, "texts have headers"
    if header is None:
        return FileState(path, Status.EDITED, "it does not start with symgrad's header")
    if not header.is_untouched:
        return FileState(path, Status.EDITED)
    reason = _stale(header, goal)
    return FileState(path, Status.STALE, reason) if reason else FileState(path, Status.FRESH)


def _stale(header: Header, goal: Header) -> str:
    if header.version != goal.version:
        return f"symgrad {header.version} wrote it"
    if header.label is None or goal.label is None:
        return "" if header.text == goal.text else "symgrad writes it differently now"
    if not same_label(header.label, goal.label):
        return f"it comes from {header.label}"
    if header.source != goal.source:
        return "the spec or an option has changed"
    return "" if (header.text, header.names) == (goal.text, goal.names) else "symgrad writes it differently now"
