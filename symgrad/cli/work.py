"""From the arguments of a command to compiled specs: finding, reading, compiling."""

from __future__ import annotations

import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from symgrad.errors import Location, Mistake, SpecError, SymgradError
from symgrad.resources import module_name
from symgrad.spec import Spec, parse_spec
from symgrad.spec.load import load_each
from symgrad.spec.yaml_source import MAX_BYTES

if TYPE_CHECKING:
    from symgrad.cli.terminal import Terminal
    from symgrad.explain.derivation import Derivation
    from symgrad.files import FileState

__all__ = [
    "Failed",
    "Known",
    "Outcome",
    "Ready",
    "compile_all",
    "find_specs",
    "load",
    "load_all",
    "succeeded",
    "work_all",
]

T = TypeVar("T")
R = TypeVar("R")

STANDARD_INPUT = "-"
_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class Ready:
    """A spec that compiled: the bodies of its files and of what its folder shares, by name."""

    spec: Spec
    files: Mapping[str, str]
    shared: Mapping[str, str]
    derivation: Derivation
    refused: str = ""  # why there is nothing for some of the targets

    @property
    def path(self) -> str:
        """The path of the spec."""
        return self.spec.path


@dataclass(frozen=True)
class Known:
    """A spec that need not be compiled: the headers of its files tell how they stand."""

    path: str
    states: Sequence[FileState]


@dataclass(frozen=True)
class Failed:
    """A spec that did not. ``traceback`` is not empty if the fault is symgrad's."""

    path: str
    message: str
    traceback: str = ""


Outcome = Ready | Known | Failed


def find_specs(paths: Iterable[Path], exclude: Collection[Path] = ()) -> list[str | Failed]:
    """The spec files that ``paths`` name, each once: files as they are, folders with all below them.

    Hidden files and folders are passed over, and what ``exclude`` names, unless ``paths`` name it themselves; links to
    folders are not followed. A folder without specs, or one that cannot be read, is a failure among the others; a file
    is not looked at yet.
    """
    found: dict[str, str | Failed] = {}
    left_out = {os.path.realpath(path) for path in exclude}
    for path in paths:
        for file in _below(path, left_out) if path.is_dir() else [path]:
            name = file.path if isinstance(file, Failed) else file.as_posix()
            found.setdefault(os.path.realpath(name), file if isinstance(file, Failed) else name)
    return list(found.values())


def _below(folder: Path, left_out: Collection[str]) -> Iterator[Path | Failed]:
    locked: list[OSError] = []
    empty = True
    for parent, folders, files in os.walk(folder, onerror=locked.append):
        folders[:] = sorted(name for name in folders if _is_looked_at(parent, name, left_out))
        for name in sorted(files):
            if name.endswith(_SUFFIXES) and _is_looked_at(parent, name, left_out):
                empty = False
                yield Path(parent, name)
    for error in locked:
        name = Path(error.filename).as_posix()
        yield Failed(name, f"{name}: the folder cannot be read: {(error.strerror or 'unknown').lower()}")
    if empty and not locked:
        name = folder.as_posix()
        yield Failed(name, f"{name}: no spec (*.yaml, *.yml) in this folder; name one that holds some, or a file")


def _is_looked_at(parent: str, name: str, left_out: Collection[str]) -> bool:
    return not name.startswith(".") and os.path.realpath(os.path.join(parent, name)) not in left_out


def load_all(
    paths: Sequence[str | Failed], *, kernels: bool | None = None, targets: tuple[str, ...] = ()
) -> list[Spec | Failed]:
    """The specs of ``paths``, in order; ``kernels`` says whether all get fused passes for every call, or none.

    They are for these ``targets``, or else for those that each names.
    """
    specs = [s if isinstance(s, Failed) else s.with_kernels(kernels).with_targets(targets) for s in loaded(paths)]
    return _without_rivals(specs)


def loaded(paths: Iterable[str | Failed]) -> Iterator[Spec | Failed]:
    """The specs of ``paths``, in order, or why there are none."""
    for path in paths:
        yield from [path] if isinstance(path, Failed) else load(path)


def compile_all(
    specs: Sequence[Spec | Failed | Known],
    jobs: int | None = None,
    package: str = "",
    *,
    prove: bool = False,
    state: str = "",
) -> Generator[Outcome, None, None]:
    """What becomes of each spec, in order; ``jobs`` (default: one a core) are compiled at once.

    ``package`` is where tests find their modules, empty where these stand beside them. With ``prove`` SymPy judges
    what was compiled. ``state`` is that of the compiler, under which measurements are kept; empty for none.
    """
    return work_all(specs, partial(_compiled, package=package, prove=prove, state=state), jobs)


def work_all(
    specs: Sequence[Spec | T], work: Callable[[Spec], R], jobs: int | None = None
) -> Generator[R | T | Failed, None, None]:
    """What ``work`` makes of each spec, in order, or why it failed; what is no spec is passed on.

    ``jobs`` (default: one a core) are worked on at once, in processes.
    """
    wanted = [spec for spec in specs if isinstance(spec, Spec)]
    done = _worked(wanted, work, min(jobs or _cores(), len(wanted)))
    with closing(done):
        for spec in specs:
            yield next(done) if isinstance(spec, Spec) else spec


def succeeded(terminal: Terminal, outcomes: Iterable[R | Failed], failed: list[str]) -> Iterator[R]:
    """The outcomes that are none of a failure; the others are told, and their paths appended to ``failed``."""
    for outcome in outcomes:
        if isinstance(outcome, Failed):
            terminal.problem(outcome.message, outcome.traceback)
            failed.append(outcome.path)
        else:
            yield outcome


def load(path: str) -> Sequence[Spec | Failed]:
    """The specs in a file, or why there are none."""
    try:
        if path == STANDARD_INPUT:
            if sys.stdin is None:  # closed
                return [Failed(path, "the standard input is closed")]
            return [parse_spec(sys.stdin.buffer.read(MAX_BYTES + 1), "<stdin>")]
        return [s if isinstance(s, Spec) else Failed(path, str(s)) for s in load_each(path)]
    except SpecError as error:
        return [Failed(path, str(error))]
    except Exception as error:
        return [_crash(path, error)]


def _without_rivals(specs: Sequence[Spec | Failed]) -> list[Spec | Failed]:
    """``specs``, where those that would write the same files have failed."""
    rivals: dict[str, list[Spec]] = defaultdict(list)
    for spec in specs:
        if isinstance(spec, Spec):
            for module in _modules(spec):
                rivals[module].append(spec)

    def judged(spec: Spec | Failed) -> Spec | Failed:
        if isinstance(spec, Failed):
            return spec
        module = next((m for m in _modules(spec) if len(rivals[m]) > 1), None)
        if module is None:
            return spec
        others = [other for other in rivals[module] if other is not spec]
        message = f"{spec.op!r} is also the op of {', '.join(other.path for other in others)}"
        if any(other.op != spec.op for other in others):
            named = ", ".join(f"{other.op!r} of {other.path}" for other in others)
            message = f"{spec.op!r} and {named} would be written to one file, {module}.py; rename one"
        return Failed(spec.path, _op_mistake(spec, message).render())

    return [judged(spec) for spec in specs]


def _modules(spec: Spec) -> list[str]:
    """The names of the Python files of a spec, its own first."""
    targets = [module_name(spec.op, target) for target in spec.options.targets]
    triton = [f"{spec.op}_triton"] if spec.options.kernels == "all" else []
    return [*dict.fromkeys([*targets, *(f"test_{name}" for name in targets), *triton])]


def _op_mistake(spec: Spec, message: str) -> Mistake:
    key = re.search(r"""^["']?op["']?[ \t]*:[ \t]*""", spec.text, re.MULTILINE)
    if key is None:
        key = re.search(rf"^[ \t]*def[ \t]+(?={re.escape(spec.op)}\b)", spec.text, re.MULTILINE)
    if key is None:  # written as {op: ..., ...}
        return Mistake(spec.path, Location(1, 1), "op", message)
    line = spec.text.count("\n", 0, key.end()) + 1
    source = spec.text.splitlines()[line - 1]
    return Mistake(spec.path, Location(line, key.end() - spec.text.rfind("\n", 0, key.end())), "op", message, source)


def _worked(specs: Sequence[Spec], work: Callable[[Spec], R], jobs: int) -> Generator[R | Failed, None, None]:
    """The work on ``specs`` in order, here or in ``jobs`` processes: the results are the same."""
    if jobs < 2:
        yield from (_attempt(work, spec) for spec in specs)
        return
    import symgrad.pipeline  # noqa: F401  (once, before the processes are forked)
    from symgrad.cli.processes import in_processes

    yield from in_processes(specs, partial(_attempt, work), jobs, _died)


def _died(spec: Spec) -> Failed:
    return Failed(spec.path, f"{spec.path}: the process that compiled it died (was memory short?)")


def _attempt(work: Callable[[Spec], R], spec: Spec) -> R | Failed:
    try:
        return work(spec)
    except SpecError as error:
        return Failed(spec.path, str(error))
    except SymgradError as error:
        return Failed(spec.path, f"{spec.path}: {error}")
    except Exception as error:
        return _crash(spec.path, error)


def _compiled(spec: Spec, package: str, prove: bool, state: str) -> Ready:
    from symgrad.compiler.measured import measured_at_home
    from symgrad.pipeline import compile_spec

    measured = measured_at_home(state) if state else None
    compiled = compile_spec(spec, package=package, prove=prove, measured=measured)
    refused = "\n".join(mistake.render() for mistake in compiled.mistakes)
    return Ready(spec, compiled.files, compiled.shared, compiled.derivation, refused)


def _crash(path: str, error: Exception) -> Failed:
    """A fault of symgrad's own: the one place that takes any exception, so that other specs go on."""
    import traceback

    what = f"{type(error).__name__}: {error}".rstrip(": ").splitlines()[0]
    hint = "this is a bug in symgrad; please report it with the spec (-v shows where it happened)"
    return Failed(path, f"{path}: internal error: {what}\n{hint}", "".join(traceback.format_exception(error)))


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
