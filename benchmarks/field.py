"""The operations of `specs/field` as tables: what each stands for, and how the original and ours compare.

python benchmarks/field.py > docs/field.md

Generates all of them into a folder (a temporary one, or the one that is named) and measures what is ours: lines,
errors, bytes kept for backward. What is known of the originals, whose code is not here, stands in
`benchmarks/field.yaml`.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from ruamel.yaml import YAML

from symgrad.spec import Spec, load_spec
from symgrad.testing.conduct import kept_on, saved, size
from symgrad.testing.facts import Subject
from symgrad.testing.samples import bound, composite, draw, leaves

ROOT = Path(__file__).parents[1]
FIELD = ROOT / "specs" / "field"
FACTS: Mapping[str, Any] = YAML(typ="safe").load(ROOT / "benchmarks" / "field.yaml")

HEAD = """\
# Operations from the field

Each spec of `specs/field` stands for a hand-written `torch.autograd.Function` of a public repository, described in our
own words from what it computes. Those in the folder itself are generated and tested with all other specs; the others,
in `specs/field/nightly`, at night: `python -m pytest -m nightly tests/test_field.py`. This page is made by
`python benchmarks/field.py > docs/field.md`.

Lines are those of code: of the original's class and its functions of forward and backward, without docstrings and
comments; of the spec; of the generated module with everything in it. Errors are the largest of a value or derivative in
float32, in ulp beyond the conditioning of the formula, with correctly rounded functions; they are given for what is
pointwise. Bytes are what is kept for backward, inputs included, at sizes of about a megabyte; a formula whose gradient
is given has no composite to compare with. Time is that of a forward and backward pass of the generated eager module as
a ratio to the original's: below 1 is faster.

What originals get wrong was found by running them beside the generated ones on a CPU (torch 2.13): values, gradients of
all and of each input, and second derivatives in float64 at random points; dtypes of results in four dtypes; results
that are not finite where the true ones are, in float32 up to 1e4; inputs and cotangents that are changed, and a second
backward pass that differs from the first. Times are medians of 15 passes of each in turn, in one process, by the time
that the processor spent; a ratio moves by a quarter from run to run. Originals in CUDA, Triton or C++ were not run. A
tick says that nothing was found.

"""
COLUMNS = ("operation", "stands for", "lines: original", "spec", "module", "what the original gets wrong", "error")
COLUMNS = (*COLUMNS, "bytes: original", "composite", "ours", "time")


def tables(folder: Path) -> Iterator[str]:
    """The lines of the page, from the modules in a folder."""
    found: dict[str, list[tuple[str, ...]]] = {category: [] for category in FACTS["categories"]}
    for path in sorted(FIELD.rglob("*.yaml"), key=lambda path: path.stem):
        facts = FACTS["operations"][path.stem]
        found[facts["category"]].append(row(path, facts, folder))
    yield HEAD
    yield summary(FACTS["operations"])
    for category, rows in found.items():
        yield f"\n## {category}\n"
        yield f"| {' | '.join(COLUMNS)} |\n| {' | '.join('---' for _ in COLUMNS)} |"
        yield from (f"| {' | '.join(cells)} |" for cells in rows)


def summary(operations: Mapping[str, Any]) -> str:
    """How many of the originals that were run get something wrong, by kind."""
    ran = [facts for facts in operations.values() if "not run" not in facts]
    kinds = dict.fromkeys(kind for facts in ran for kind in facts.get("wrong", {}))
    counts = ", ".join(f"{kind} {sum(kind in facts.get('wrong', {}) for facts in ran)}" for kind in kinds)
    faulty = sum(bool(facts.get("wrong")) for facts in ran)
    of_all = f"{faulty} of {len(ran)} originals that were run are wrong somewhere"
    return f"There are {len(operations)} operations; {of_all}: {counts}."


def row(path: Path, facts: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    """One operation as a row."""
    spec = load_spec(path)
    repository, file, name = (part.strip() for part in str(spec.reference).split(",", 2))
    wrong = "; ".join(f"{kind}: {text}" for kind, text in facts.get("wrong", {}).items())
    if "not run" in facts:
        wrong = f"not run: {facts['not run']}"
    subject = subject_of(spec, folder)
    plain = None if subject.overridden else kept(subject, composite(subject, subject.settings[0]), facts["shapes"])
    ours = kept(subject, bound(subject.call, subject.settings[0]), facts["shapes"])
    return (
        f"`{spec.op}`: {(spec.summary or '').rstrip('.')}",
        f"{name} in [{repository}](https://github.com/{repository}), `{file}`",
        str(facts["lines"]),
        str(_lines(path)),
        str(len((folder / f"{spec.op}.py").read_text(encoding="utf-8").splitlines())),
        wrong or "✓",
        f"{max(a.ulp for a in subject.accuracy):.2g}" if subject.accuracy else "",
        _bytes(facts.get("bytes")),
        _bytes(plain),
        _bytes(ours),
        f"{facts['time']:.2f}" if "time" in facts else "",
    )


def subject_of(spec: Spec, folder: Path) -> Subject:
    """The generated operation with all that its test states."""
    module = importlib.import_module(f"{folder.name}.test_{spec.op}")
    case: Any = next(v for k, v in vars(module).items() if k.startswith("Test") and hasattr(v, "subject"))
    found: Subject = case.subject()
    return found


def kept(subject: Subject, function: Any, shapes: Sequence[Sequence[int]]) -> int:
    """The bytes that a call in float32 keeps for backward."""
    arguments = leaves(subject, draw(subject, tuple(map(tuple, shapes)), torch.float32))
    found, outputs = saved(subject, function, arguments)
    return size([*found, *kept_on(outputs)])


def _lines(path: Path) -> int:
    return sum(bool(line.strip()) for line in path.read_text(encoding="utf-8").splitlines())


def _bytes(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path, help="where modules are generated, and kept for the next time")
    given = parser.parse_args().folder
    with tempfile.TemporaryDirectory() as temporary:
        out = (given or Path(temporary, "field")).resolve()
        command = [sys.executable, "-m", "symgrad", "gen", str(FIELD), str(FIELD / "nightly"), "-o", str(out)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
        sys.path.insert(0, str(out.parent))
        print("\n".join(tables(out)))
