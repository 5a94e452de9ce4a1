"""What the commands that take specs do, and `new`. Each returns the exit status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from symgrad import files
from symgrad.cli.terminal import Terminal
from symgrad.cli.work import Failed, Ready, compile_all, load
from symgrad.files import Status
from symgrad.resources import environment

__all__ = ["check", "convert", "explain", "generate", "start_spec"]

_KEEPING_PASSES = "`--kernels`, or `options: {kernels: true}` in the spec, keeps the fused passes"


def generate(
    terminal: Terminal,
    specs: Sequence[str | Failed],
    out: Path,
    *,
    force: bool,
    jobs: int | None,
    kernels: bool = False,
) -> int:
    """Write the files of ``specs`` into ``out``."""
    written: Counter[str] = Counter()

    def write(spec: Ready) -> None:
        before = files.update(out, _texts(spec), force=force)
        removed = [state.path.as_posix() for state in before if state.status is Status.LEFT]
        changed = [state.path.as_posix() for state in before if state.status not in (Status.FRESH, Status.LEFT)]
        if changed:
            terminal.result(f"{spec.path}: wrote {', '.join(changed)}")
        else:
            terminal.detail(f"{spec.path}: unchanged")
        if removed:
            terminal.remark(f"{spec.path}: note: removed {', '.join(removed)}; {_KEEPING_PASSES}")
        for note in spec.derivation.notes:
            terminal.remark(f"{spec.path}: note: {note}")
        written["generated" if changed else "unchanged"] += 1

    failed = _each(terminal, specs, jobs, write, kernels)
    terminal.result(_summary(_count(written.total() + failed, "spec"), {**written, "failed": failed}))
    return 1 if failed else 0


def check(
    terminal: Terminal, specs: Sequence[str | Failed], out: Path, *, jobs: int | None, kernels: bool = False
) -> int:
    """Compare the files in ``out`` with what would be written."""
    seen: Counter[Status] = Counter()

    def compare(spec: Ready) -> None:
        states = files.check(out, _texts(spec))
        for state in states:
            seen[state.status] += 1
            hint = f"; {_KEEPING_PASSES}" if state.status is Status.LEFT else ""
            (terminal.detail if state.status is Status.FRESH else terminal.finding)(f"{state}{hint}")

    failed = _each(terminal, specs, jobs, compare, kernels)
    fresh = seen[Status.FRESH] == seen.total()
    terminal.result(_summary(_count(seen.total(), "file"), {status.value: seen[status] for status in Status}))
    if failed:
        terminal.result(f"{_count(failed, 'spec')} failed")
    return 0 if fresh and not failed else 1


def explain(terminal: Terminal, specs: Sequence[str | Failed], *, jobs: int | None) -> int:
    """Show how ``specs`` are compiled."""
    from symgrad.explain.show import show

    def tell(spec: Ready) -> None:
        show(spec.derivation, op=spec.op, path=spec.path, summary=spec.summary)

    return 1 if _each(terminal, specs, jobs, tell) else 0


def convert(terminal: Terminal, specs: Sequence[str | Failed], out: Path | None) -> int:
    """Show ``specs`` as YAML, or write them into ``out``, each as a file of its own."""
    from symgrad.spec.write import as_yaml

    failed = 0
    texts: list[str] = []
    for path in specs:
        for spec in [path] if isinstance(path, Failed) else load(path):
            if isinstance(spec, Failed):
                terminal.problem(spec.message, spec.traceback)
                failed += 1
            elif out is None:
                texts.append(as_yaml(spec))
            else:
                failed += not _written(terminal, out / f"{spec.op}.yaml", as_yaml(spec))
    if texts:
        terminal.finding("---\n".join(texts).rstrip("\n"))
    return 1 if failed else 0


def _written(terminal: Terminal, path: Path, text: str, hint: str = "") -> bool:
    try:
        files.create(path, text)
    except files.FileError as error:
        terminal.problem(str(error))
        return False
    terminal.result(f"wrote {path.as_posix()}{hint}")
    return True


def start_spec(terminal: Terminal, op: str, out: Path) -> int:
    """Write a spec to start from."""
    path = out / f"{op}.yaml"
    hint = f"; edit it, then run: symgrad gen {path.as_posix()}"
    if not _written(terminal, path, environment().get_template("new.yaml.j2").render(op=op), hint):
        return 1
    return 0


def _each(
    terminal: Terminal,
    specs: Sequence[str | Failed],
    jobs: int | None,
    act: Callable[[Ready], None],
    kernels: bool = False,
) -> int:
    """Call ``act`` with every spec that compiles, in order; how many specs failed, there or before."""
    failed = 0
    outcomes = compile_all(specs, jobs, kernels=kernels)
    with closing(outcomes), terminal.progress(outcomes, len(specs)) as shown:
        for outcome in shown:
            if isinstance(outcome, Failed):
                terminal.problem(outcome.message, outcome.traceback)
                failed += 1
                continue
            try:
                act(outcome)
            except files.FileError as error:
                terminal.problem(str(error))
                failed += 1
    return failed


def _texts(spec: Ready) -> dict[str, str | None]:
    texts = spec.op, spec.module, spec.test
    wanted = files.render(*texts, spec_path=spec.path, spec_text=spec.text, passes=spec.passes)
    return {**wanted, **dict.fromkeys(spec.without)}


def _summary(total: str, parts: dict[str, int]) -> str:
    told = ", ".join(f"{number} {what}" for what, number in parts.items() if number)
    return f"{total}: {told}" if told else total


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
