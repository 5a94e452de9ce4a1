"""Arguments and options that several commands have, and what gen and check are asked for by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from symgrad.cli.program import F, project_config
from symgrad.resources import TARGETS

if TYPE_CHECKING:
    from symgrad.cli.specs import Request
    from symgrad.cli.work import Failed


def _paths(ctx: click.Context, param: click.Parameter, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """The arguments, or else what the project's table names."""
    if paths or ctx.resilient_parsing:
        return paths
    found = project_config().specs
    if not found:
        hint = 'name specs or folders of specs, or say in pyproject.toml: [tool.symgrad] specs = ["specs"]'
        raise click.UsageError(f"Missing argument 'SPEC...': {hint}.")
    return found


def found_specs(paths: Sequence[Path]) -> list[str | Failed]:
    """The spec files that the arguments name. A path that does not exist, or holds no spec, fails like
    a spec with mistakes: the others go on, and the exit status says so."""
    from symgrad.cli.work import find_specs

    return find_specs(paths, project_config().exclude)


def request(paths: Sequence[Path], out: Path | None, tests: Path | None, **more: Any) -> Request:
    """What gen and check were asked for: options, then the project's table, then the defaults."""
    from symgrad.cli.specs import Request

    config = project_config()
    more["kernels"] = config.kernels if more.get("kernels") is None else more["kernels"]
    more["partly"] = bool(more.get("targets"))
    more["targets"] = more.get("targets") or config.targets
    whole = any(path.is_dir() for path in paths) or tuple(paths) == config.specs
    # Who names a folder for modules alone keeps their tests with them.
    tests = tests if out is not None else tests or config.tests
    return Request(found_specs(paths), out or config.out or Path("generated"), tests, whole=whole, **more)


def folder_option(*names: str, what: str, default: str | None = None) -> Callable[[F], F]:
    """An option that names a folder."""
    folder = click.Path(file_okay=False, path_type=Path)
    shown = default is not None
    return click.option(*names, metavar="DIR", type=folder, default=default, show_default=shown, help=what)


def prove_option(what: str, *, default: bool = False) -> Callable[[F], F]:
    """Whether SymPy judges what was compiled; ``what`` says what for."""
    return click.option("--prove/--no-prove", default=default, show_default=True, help=what)


specs_argument = click.argument(
    "specs", nargs=-1, metavar="SPEC...", type=click.Path(readable=False, path_type=Path), callback=_paths
)
out_option = folder_option(
    "-o", "--out", what="Folder of the generated files.  [default: that of the project's table, or generated]"
)
tests_option = folder_option("--tests", what="Folder of the generated tests, if they are to stand in another one.")
full_option = click.option(
    "--full", is_flag=True, help="Compile every spec, also those whose files' headers are up to date."
)
jobs_option = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Specs compiled at once; by default as many as there are cores.",
)
cache_option = click.option(
    "--cache/--no-cache",
    default=True,
    show_default=True,
    help="Spare searches for forms that an earlier run made, and keep those of this run.",
)
kernels_option = click.option(
    "--kernels/--no-kernels",
    default=None,
    help="With fused passes for calls of every size, or with none: `options: {kernels: all}` or none for each spec.",
)
target_option = click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="TARGET",
    type=click.Choice(TARGETS),
    help=f"Write for this framework ({', '.join(TARGETS)}); may be given several times.  [default: the spec's own]",
)
