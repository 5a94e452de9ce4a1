"""The operations of `specs/field` as a table: what each stands for, and what it takes to write it.

python benchmarks/field.py > docs/field.md
"""

from __future__ import annotations

from pathlib import Path

import symgrad
from symgrad.spec import load_spec

FIELD = Path(__file__).parents[1] / "specs" / "field"

HEAD = """\
# Operations from the field

Each spec of `specs/field` stands for a hand-written `torch.autograd.Function` of a public repository, described in our
own words from what it computes. This table is made by `python benchmarks/field.py > docs/field.md`.

| operation | stands for | what it does | lines of the spec | lines of the module |
| --- | --- | --- | --- | --- |"""


def row(path: Path) -> str:
    """One operation as a row of the table."""
    spec = load_spec(path)
    repository, file, name = (part.strip() for part in str(spec.reference).split(",", 2))
    lines = sum(bool(line.strip()) for line in path.read_text(encoding="utf-8").splitlines())
    module = len(symgrad.generate(path).module.splitlines())
    stands_for = f"{name} in [{repository}](https://github.com/{repository}), `{file}`"
    return f"| `{spec.op}` | {stands_for} | {spec.summary} | {lines} | {module} |"


if __name__ == "__main__":
    print(HEAD)
    for spec_path in sorted(FIELD.glob("*.yaml")):
        print(row(spec_path))
