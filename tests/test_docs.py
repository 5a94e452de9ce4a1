"""The documentation: every block of code runs, pages of tables are what the commands print, and the site builds."""

from __future__ import annotations

import json
import linecache
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

import symgrad
from symgrad.cli import main
from symgrad.cli.functions import entries, markdown
from symgrad.ops.functions import FUNCTIONS
from symgrad.spec import parse_spec

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
_BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>not run|needs): (?P<reason>.*) -->\n+)?"
    r'```(?P<language>\w*)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)
_COMMANDS = re.compile(r"^symgrad (?:new|gen|check|functions|schema)\b.*", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of code; ``mark`` says that it is not run, or what it needs, and ``reason`` why, or what."""

    language: str
    title: str
    text: str
    mark: str
    reason: str


def blocks(page: Path) -> Iterator[Block]:
    for found in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        yield Block(*(found[name] or "" for name in ("language", "title", "text", "mark", "reason")))


def with_code(page: Path) -> bool:
    return any(block.language in ("python", "sh", "yaml", "toml") for block in blocks(page))


@pytest.mark.parametrize("page", list(filter(with_code, PAGES)), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_every_block_of_code_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the page, in an empty folder, with one namespace; files are written where they have a title."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    ours = _without_generated()
    names: dict[str, object] = {"__name__": "page"}
    try:
        for block in blocks(page):
            if block.mark == "not run" or (block.mark == "needs" and not hasattr(symgrad, block.reason)):
                continue
            if block.title:
                target = tmp_path / block.title
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(block.text, encoding="utf-8")
            if block.language == "yaml" and re.search(r"^op:", block.text, re.MULTILINE):
                assert parse_spec(block.text).op
            elif block.language == "sh":
                for command in _COMMANDS.findall(block.text):
                    done = CliRunner().invoke(main, command.partition("#")[0].split()[1:])
                    assert done.exit_code == 0, f"{command}\n{done.output}"
            elif block.language == "python":
                name = f"<{page.name}: {block.text[:40]!r}>"
                linecache.cache[name] = len(block.text), None, block.text.splitlines(True), name  # as in a notebook
                code = compile(block.text, name, "exec")
                exec(code, names)
    finally:
        _without_generated()
        sys.modules.update(ours)


def _without_generated() -> dict[str, ModuleType]:
    """Forget all modules that were generated, so that those of a page are found; returns them."""
    names = [n for n in sys.modules if n.partition(".")[0] == "generated" or n.startswith("symgrad.loaded")]
    return {name: sys.modules.pop(name) for name in names}


def command_line() -> str:
    """The page of all commands, as they describe themselves."""
    lines = ["# Command line", "", "Made of what `symgrad COMMAND --help` says.", ""]
    for name in sorted(main.commands):
        told = CliRunner(env={"COLUMNS": "80"}).invoke(main, [name, "--help"]).stdout
        lines += [f"## `symgrad {name}`", "", "```text", *(line.rstrip() for line in told.splitlines()), "```", ""]
    return "\n".join(lines)


def functions() -> str:
    """The page of functions."""
    told = "What `symgrad functions --markdown` prints. Derivatives follow PyTorch's conventions at kinks."
    return f"# Functions\n\n{told}\n\n{markdown()}"


def language() -> str:
    """The page of the language, with the words that there are."""
    text = (DOCS / "reference" / "language.md").read_text(encoding="utf-8")
    before, mark, after = re.split(r"(<!-- words: .* -->\n)", text)
    named = [entry for entry in entries() if not entry.signature.startswith("x.")]
    kinds = {
        "of elements": [e.name for e in named if e.name in FUNCTIONS],
        "of whole tensors": [e.name for e in named if e.name not in FUNCTIONS and not e.means],
        "formulas of torch": [e.name for e in named if e.name not in FUNCTIONS and e.means],
    }
    rows = "".join(f"| {kind} | `{' '.join(names)}` |\n" for kind, names in kinds.items())
    table = f"\n| | |\n| --- | --- |\n{rows}"
    return before + mark + table + "\n" + after[after.index("A function may be written") :]


@pytest.mark.parametrize(
    ("name", "make"), [("command-line", command_line), ("functions", functions), ("language", language)]
)
def test_pages_of_tables_are_up_to_date(name, make, update: bool) -> None:
    """`pytest tests/test_docs.py --update` writes them."""
    page = DOCS / "reference" / f"{name}.md"
    if update:
        page.write_text(make(), encoding="utf-8")
    assert page.read_text(encoding="utf-8") == make(), "run: python -m pytest tests/test_docs.py --update"


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="no mkdocs: the docs extra builds the site")
    pytest.importorskip("material", reason="no mkdocs-material")
    pytest.importorskip("mkdocstrings", reason="no mkdocstrings")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-q",
        "-f",
        str(ROOT / "mkdocs.yml"),
        "-d",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "tutorial" / "index.html").is_file()


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        text = re.sub("`[^`\n]*`", "", _BLOCK.sub("", page.read_text(encoding="utf-8")))
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"


def test_the_navigation_names_pages_that_there_are() -> None:
    listed = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert listed <= {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}


def test_every_cell_of_the_notebook_runs() -> None:
    cells = json.loads((DOCS / "sympy.ipynb").read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(sources) >= 5
    assert not any(cell.get("outputs") for cell in cells)  # they would be out of date
    scope: dict[str, object] = {"__name__": "notebook"}
    for number, source in enumerate(sources):
        exec(compile(source, f"<cell {number}>", "exec"), scope)
