"""What the commands that take specs do, and `new`. Each returns the exit status."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from difflib import unified_diff
from importlib.util import find_spec
from pathlib import Path

from symgrad import files
from symgrad.cli.terminal import Terminal
from symgrad.cli.work import Failed, Known, Ready, compile_all, load_all, loaded, succeeded, work_all
from symgrad.files import FileState, Folder, Status
from symgrad.resources import environment
from symgrad.spec import Spec
from symgrad.text import counted

__all__ = ["Request", "Writing", "check", "convert", "explain", "generate", "show_latex", "start_spec", "watch"]

_SCHEMA = ".symgrad.schema.json"
_EVERY = 0.3  # seconds between two looks at the specs


@dataclass(frozen=True)
class Request:
    """What a command was asked for.

    ``whole``: the specs are all that folders hold, so that files of other specs may be left over. ``full``: headers are
    not believed, everything is compiled. ``prove``: so it is, and SymPy judges it. ``partly``: the targets are those of
    this command alone, so that files for others are not left over. ``cache``: forms that earlier runs chose are looked
    up, and those of this run are kept.
    """

    specs: Sequence[str | Failed]
    out: Path
    tests: Path | None = None
    kernels: bool | None = None
    targets: tuple[str, ...] = ()
    whole: bool = False
    partly: bool = False
    full: bool = False
    prove: bool = False
    cache: bool = False
    jobs: int | None = None


@dataclass(frozen=True)
class Writing:
    """How gen writes. ``dry``: not at all, it tells what it would; ``diff``: and shows it."""

    force: bool = False
    prune: bool = False
    dry: bool = False
    diff: bool = False


def generate(terminal: Terminal, asked: Request, how: Writing = Writing()) -> int:
    """Write the files of specs."""
    written: Counter[str] = Counter()
    run = _Run(terminal, asked)
    would = "would " if how.dry else ""

    def write(outcome: Ready | Known) -> None:
        if isinstance(outcome, Ready) and not run.is_proven(outcome):
            return
        if isinstance(outcome, Known):
            files.refuse_edited(outcome.states, force=how.force)
            before = outcome.states
        elif how.dry:
            before, texts = run.folder.planned(run.texts(outcome), outcome.shared, force=how.force)
            if how.diff:
                for path, text in texts.items():
                    terminal.finding(_diff(path, text))
        else:
            before = run.folder.update(run.texts(outcome), outcome.shared, force=how.force)
        changed = [state.path.as_posix() for state in before if state.status is not Status.FRESH]
        if changed:
            terminal.result(f"{outcome.path}: {'would write' if how.dry else 'wrote'} {', '.join(changed)}")
        else:
            terminal.detail(f"{outcome.path}: unchanged")
        if isinstance(outcome, Ready):
            run.refuse(outcome)
            for note in outcome.derivation.notes:
                terminal.remark(f"{outcome.spec.place}: note: {note}")
        written[f"{would}{'change' if how.dry else 'generated'}" if changed else "unchanged"] += 1

    run.each(write, compile_edited=how.force)
    left = run.left_over()
    if how.prune and how.dry:
        for state in left:
            terminal.result(f"would remove {state.path.as_posix()}")
        left = []
    try:
        if how.prune and left:
            gone, left = run.folder.prune(left, force=how.force)
            for path in gone:
                terminal.result(f"removed {path.as_posix()}")
            written["removed"] = len(gone)
        if not how.dry:
            run.folder.stamp(left)
    except files.FileError as error:
        terminal.problem(str(error))
        run.failed += 1
    for state in left:
        hint = "--force removes it, too" if how.prune else "`symgrad gen --prune` removes it"
        terminal.remark(f"note: {state}; {hint}")
    terminal.result(_summary(counted(len(run.specs), "spec"), {**written, "failed": run.failed}))
    if written["generated"] and find_spec("torch") is None:
        terminal.remark('note: PyTorch is not installed here; generated modules need it: pip install "symgrad[torch]"')
    return 1 if run.failed else 0


def _diff(path: Path, text: str) -> str:
    """What would change in a file, as ``diff -u`` shows it."""
    before = files.read_text(path).splitlines()
    name = path.as_posix()
    return "\n".join(unified_diff(before, text.splitlines(), f"a/{name}", f"b/{name}", lineterm=""))


def watch(terminal: Terminal, ask: Callable[[], Request], how: Writing) -> int:
    """Generate now, and again whenever a spec changes, until interrupted; ``ask`` looks for the specs anew."""
    seen: dict[str, tuple[int, int]] | None = None
    last = seen
    with suppress(KeyboardInterrupt):
        while True:
            asked = ask()
            now = {path: _stamp(path) for path in asked.specs if isinstance(path, str)}
            settled, last = now == last, now  # a file that is being written is not read yet
            if settled and now != seen:
                seen = now
                generate(terminal, asked, how)
                terminal.result("watching; Ctrl-C ends it")
            time.sleep(_EVERY)
    return 0


def _stamp(path: str) -> tuple[int, int]:
    """What tells that a file was written: its time and size, none where it is gone."""
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0)
    return found.st_mtime_ns, found.st_size


def check(terminal: Terminal, asked: Request) -> int:
    """Compare the files of specs with what would be written."""
    seen: dict[Path, FileState] = {}
    run = _Run(terminal, asked)

    def compare(outcome: Ready | Known) -> None:
        if isinstance(outcome, Known):
            note(outcome.states)
        else:
            run.is_proven(outcome)
            run.refuse(outcome)
            note(run.folder.check(run.texts(outcome), outcome.shared))

    def note(states: Sequence[FileState]) -> None:
        for state in states:
            if state.path not in seen:
                (terminal.detail if state.status is Status.FRESH else terminal.finding)(str(state))
                seen[state.path] = state

    run.each(compare)
    note(run.folder.shared_states())
    note([_with_hint(state) for state in run.left_over()])
    statuses = Counter(state.status for state in seen.values())
    terminal.result(_summary(counted(len(seen), "file"), {status.value: statuses[status] for status in Status}))
    if run.failed:
        terminal.result(f"{counted(run.failed, 'spec')} failed")
    return 0 if statuses[Status.FRESH] == len(seen) and not run.failed else 1


def explain(
    terminal: Terminal, specs: Sequence[str | Failed], *, targets: tuple[str, ...], prove: bool, jobs: int | None
) -> int:
    """Show how ``specs`` are compiled, and what is kept in each of the ``targets``, or of those that they name; with
    ``prove`` also what SymPy finds."""
    from symgrad.explain.show import show

    def tell(outcome: Ready | Known) -> None:
        assert isinstance(outcome, Ready), "everything is compiled"
        how = outcome.derivation
        show(how, op=outcome.spec.op, path=outcome.path, summary=outcome.spec.summary, whole=terminal.verbose)
        if outcome.refused:
            terminal.problem(outcome.refused)
            refused.append(outcome.path)

    refused: list[str] = []
    failed = _each(terminal, load_all(specs, targets=targets), jobs, tell, prove=prove)
    return 1 if failed or refused else 0


def show_latex(terminal: Terminal, specs: Sequence[str | Failed]) -> int:
    """Print formulas and derivatives of ``specs`` as LaTeX."""
    from symgrad.symbolic.display import latex

    failed: list[str] = []
    for text in succeeded(terminal, work_all(load_all(specs), latex, jobs=1), failed):
        terminal.finding(text)
    return 1 if failed else 0


def convert(terminal: Terminal, specs: Sequence[str | Failed], out: Path | None) -> int:
    """Show ``specs`` as YAML, or write them into ``out``, each as a file of its own; not those that do not compile."""
    from symgrad.spec.write import as_yaml

    failed: list[str] = []
    texts: list[str] = []
    for spec in succeeded(terminal, work_all([*loaded(specs)], _parsed, jobs=1), failed):
        if out is None:
            texts.append(as_yaml(spec))
        elif not _written(terminal, out / f"{spec.op}.yaml", as_yaml(spec)):
            failed.append(spec.path)
    if texts:
        terminal.finding("---\n".join(texts).rstrip("\n"))
    return 1 if failed else 0


def _parsed(spec: Spec) -> Spec:
    """A spec of which every formula can be read. Raises SpecError."""
    from symgrad.parse import parse_formulas

    parse_formulas(spec)
    return spec


def _written(terminal: Terminal, path: Path, text: str, hint: str = "") -> bool:
    try:
        files.create(path, text)
    except files.FileError as error:
        terminal.problem(str(error))
        return False
    terminal.result(f"wrote {path.as_posix()}{hint}")
    return True


def start_spec(terminal: Terminal, op: str, out: Path) -> int:
    """Write a spec to start from, and beside it the schema by which editors complete it."""
    from symgrad.spec.schema import schema_text

    path, schema, text = out / f"{op}.yaml", out / _SCHEMA, schema_text()
    hint = f"; edit it, then run: symgrad gen {path.as_posix()}"
    if not _written(terminal, path, environment().get_template("new.yaml.j2").render(op=op, schema=_SCHEMA), hint):
        return 1
    try:
        if files.read_text(schema) != text:
            files.write({schema: text})
    except files.FileError as error:
        terminal.problem(str(error))
        return 1
    return 0


class _Run:
    """One run over specs and the folder of their files."""

    def __init__(self, terminal: Terminal, asked: Request) -> None:
        self.terminal = terminal
        self.asked = asked
        self.folder = Folder(asked.out, asked.tests)
        self.specs = load_all(asked.specs, kernels=asked.kernels, targets=asked.targets)
        self.package = self.folder.package
        self.failed = 0
        self._failures: list[str] = []

    def each(self, act: Callable[[Ready | Known], None], *, compile_edited: bool = False) -> None:
        """Call ``act`` for each spec that does not fail; those are compiled whose headers leave a doubt."""
        known = [self._known(spec, compile_edited=compile_edited) for spec in self.specs]
        state = files.compiler_hash() if self.asked.cache and any(isinstance(s, Spec) for s in known) else ""
        failed = _each(self.terminal, known, self.asked.jobs, act, self.package, prove=self.asked.prove, state=state)
        self.failed += len(failed)
        self._failures += failed

    def _known(self, spec: Spec | Failed, *, compile_edited: bool) -> Spec | Failed | Known:
        if isinstance(spec, Failed) or self.asked.full or self.asked.prove:
            return spec
        states = self.folder.known(spec.path, self.source(spec))
        if states is None or (compile_edited and any(state.status is Status.EDITED for state in states)):
            return spec
        return Known(spec.path, states)

    def source(self, spec: Spec) -> str:
        """The hash of a spec, as headers have it."""
        return files.spec_hash(spec, self.package)

    def texts(self, ready: Ready) -> dict[str, str]:
        """The files of a spec with their headers."""
        return files.render(ready.files, spec_path=ready.path, source=self.source(ready.spec), shared=ready.shared)

    def refuse(self, ready: Ready) -> None:
        """Tell of the targets that cannot have a spec; the others go on."""
        if ready.refused:
            self.terminal.problem(ready.refused)
            self.failed += 1

    def is_proven(self, ready: Ready) -> bool:
        """Tell what SymPy found, if it was asked, and whether it refutes nothing."""
        from symgrad.explain.gain import proof_line

        line = proof_line(ready.derivation)
        if not line:
            return True
        wrong = [p for p in ready.derivation.proofs if p.outcome == "refuted"]
        if not wrong:
            self.terminal.result(f"{ready.spec.place}: {line}")
            return True
        for proof in wrong:
            self.terminal.problem(f"{ready.spec.place}: {proof.subject}: {proof.text}")
        self.failed += 1
        self._failures.append(ready.path)
        return False

    def left_over(self) -> list[FileState]:
        """Files that no spec gives any more; nothing is said of those whose specs failed, or of which others may be."""
        failed = {spec.path for spec in self.specs} if self.asked.partly else set(self._failures)
        done = [spec.path for spec in self.specs if spec.path not in failed]
        return self.folder.left_over(done, failed, whole=self.asked.whole)


def _each(
    terminal: Terminal,
    specs: Sequence[Spec | Failed | Known],
    jobs: int | None,
    act: Callable[[Ready | Known], None],
    package: str = "",
    *,
    prove: bool = False,
    state: str = "",
) -> list[str]:
    """Call ``act`` with every spec that compiles, in order; the paths of specs that failed, there or before."""
    failed: list[str] = []
    told: set[str] = set()
    outcomes = compile_all(specs, jobs, package, prove=prove, state=state)
    with closing(outcomes), terminal.progress(outcomes, [spec.path for spec in specs]) as shown:
        compiled: Iterator[Ready | Known] = succeeded(terminal, shown, failed)
        for outcome in compiled:
            try:
                act(outcome)
            except files.FileError as error:
                failed.append(outcome.path)
                lines = [line for line in str(error).splitlines() if line not in told]  # of a file that specs share
                told.update(lines)
                if lines:
                    terminal.problem("\n".join(lines))
    return failed


def _with_hint(state: FileState) -> FileState:
    return FileState(state.path, state.status, f"{state.reason}; `symgrad gen --prune` removes it")


def _summary(total: str, parts: dict[str, int]) -> str:
    told = ", ".join(f"{number} {what}" for what, number in parts.items() if number)
    return f"{total}: {told}" if told else total
