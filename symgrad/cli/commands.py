"""The commands. Exit status: 0, or 1 if a spec or a check failed, 2 for wrong usage, 130 if interrupted."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from symgrad import __version__
from symgrad.cli.audit import audit
from symgrad.cli.terminal import Terminal
from symgrad.errors import SymgradError
from symgrad.resources import TARGETS

if TYPE_CHECKING:
    from symgrad.cli.config import Config
    from symgrad.cli.specs import Request
    from symgrad.cli.work import Failed

__all__ = ["main"]

F = TypeVar("F", bound=Callable[..., Any])


class _Program(click.Group):
    """A group of commands whose return values are exit statuses."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the program; in standalone mode, exit."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):  # what the terminal's encoding lacks is no reason to fail
                stream.reconfigure(errors="backslashreplace")
        try:
            status = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
            sys.stdout.flush()
        except click.ClickException as error:
            error.show()
            status = error.exit_code
        except (click.Abort, KeyboardInterrupt):
            click.echo("interrupted", err=True)
            status = 130
        except BrokenPipeError:
            _leave_quietly()
        except OSError as error:  # of the output; what concerns a file is reported where it happens
            click.echo(f"symgrad: {error}", err=True)
            status = 1
        sys.exit(status)


def _leave_quietly() -> NoReturn:
    """End after the reader of our output has gone: Python must not complain about it at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)


def _verbosity(command: F) -> F:
    """The options -q and -v: of the program and, just as well, after the name of a command."""

    def remember(value: int) -> Callable[[click.Context, click.Parameter, bool], None]:
        def callback(ctx: click.Context, param: click.Parameter, given: bool) -> None:
            asked = ctx.find_root().meta
            if given and asked.setdefault(_VERBOSITY, value) != value:
                raise click.UsageError("-q and -v exclude each other.")

        return callback

    quiet = click.option(
        "-q", "--quiet", is_flag=True, expose_value=False, callback=remember(-1), help="Print problems only."
    )
    verbose = click.option(
        "-v",
        "--verbose",
        is_flag=True,
        expose_value=False,
        callback=remember(1),
        help="Name what is up to date, too; show where bugs happened.",
    )
    return quiet(verbose(command))


_VERBOSITY = "symgrad.verbosity"


def _terminal() -> Terminal:
    return Terminal(click.get_current_context().find_root().meta.get(_VERBOSITY, 0))


def _config() -> Config:
    """The project's table, read once in a run. Raises UsageError for one with mistakes."""
    meta = click.get_current_context().find_root().meta
    if _CONFIG not in meta:
        from symgrad.cli.config import read_config

        try:
            meta[_CONFIG] = read_config()
        except SymgradError as error:
            raise click.UsageError(str(error)) from None
    found: Config = meta[_CONFIG]
    return found


_CONFIG = "symgrad.config"


def _paths(ctx: click.Context, param: click.Parameter, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """The arguments, or else what the project's table names."""
    if paths or ctx.resilient_parsing:
        return paths
    found = _config().specs
    if not found:
        hint = 'name specs or folders of specs, or say in pyproject.toml: [tool.symgrad] specs = ["specs"]'
        raise click.UsageError(f"Missing argument 'SPEC...': {hint}.")
    return found


def _found(paths: Sequence[Path]) -> list[str | Failed]:
    """The spec files that the arguments name. A path that does not exist, or holds no spec, fails like
    a spec with mistakes: the others go on, and the exit status says so."""
    from symgrad.cli.work import find_specs

    return find_specs(paths, _config().exclude)


def _request(paths: Sequence[Path], out: Path | None, tests: Path | None, **more: Any) -> Request:
    """What gen and check were asked for: options, then the project's table, then the defaults."""
    from symgrad.cli.specs import Request

    config = _config()
    more["kernels"] = config.kernels if more.get("kernels") is None else more["kernels"]
    more["partly"] = bool(more.get("targets"))
    more["targets"] = more.get("targets") or config.targets
    whole = any(path.is_dir() for path in paths) or tuple(paths) == config.specs
    # Who names a folder for modules alone keeps their tests with them.
    tests = tests if out is not None else tests or config.tests
    return Request(_found(paths), out or config.out or Path("generated"), tests, whole=whole, **more)


_specs_argument = click.argument("specs", nargs=-1, metavar="SPEC...", type=click.Path(path_type=Path), callback=_paths)
_out_option = click.option(
    "-o",
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the generated files.  [default: that of the project's table, or generated]",
)
_tests_option = click.option(
    "--tests",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the generated tests, if they are to stand in another one.",
)
_full_option = click.option(
    "--full", is_flag=True, help="Compile every spec, also those whose files' headers are up to date."
)
_jobs_option = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Specs compiled at once; by default as many as there are cores.",
)

_cache_option = click.option(
    "--cache/--no-cache",
    default=True,
    show_default=True,
    help="Spare searches for forms that an earlier run made, and keep those of this run.",
)

_kernels_option = click.option(
    "--kernels/--no-kernels",
    default=None,
    help="With fused passes for calls of every size, or with none: `options: {kernels: all}` or none for each spec.",
)
_target_option = click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="TARGET",
    type=click.Choice(TARGETS),
    help=f"Write for this framework ({', '.join(TARGETS)}); may be given several times.  [default: the spec's own]",
)


def _prove_option(what: str, *, default: bool = False) -> Callable[[F], F]:
    return click.option("--prove/--no-prove", default=default, show_default=True, help=what)


@click.group(
    cls=_Program,
    name="symgrad",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with `symgrad new my_op`. `symgrad COMMAND --help` tells more about a command.",
)
@click.version_option(__version__, prog_name="symgrad", message="%(prog)s %(version)s")
@_verbosity
def main() -> None:
    """Compile formulas into complete, verified torch.autograd.Function modules."""
    # Hundreds of thousands of expressions and hardly a cycle: looking for garbage took a tenth of the time.
    gc.set_threshold(100_000, 50, 100)


@main.command()
@_specs_argument
@_out_option
@_tests_option
@click.option("--force", is_flag=True, help="Overwrite files that were edited by hand.")
@click.option("--prune", is_flag=True, help="Remove generated files that no spec gives any more.")
@click.option("--dry-run", is_flag=True, help="Write nothing; tell what would be written.")
@click.option("--diff", is_flag=True, help="Write nothing; show what would change.")
@_full_option
@_prove_option(
    "Compile every spec, write only files whose values and derivatives SymPy does not refute, and say in their "
    "docstrings what is proven."
)
@_kernels_option
@_target_option
@_cache_option
@_jobs_option
@_verbosity
def gen(
    specs: tuple[Path, ...],
    out: Path | None,
    tests: Path | None,
    force: bool,
    prune: bool,
    dry_run: bool,
    diff: bool,
    full: bool,
    prove: bool,
    kernels: bool | None,
    targets: tuple[str, ...],
    cache: bool,
    jobs: int | None,
) -> int:
    """Generate the module and the test of every SPEC.

    A SPEC is a YAML file, a Python file with functions under @symgrad.op (which is read and not run), a folder
    with all YAML specs below it, or - for the standard input; without any, those of [tool.symgrad] in
    pyproject.toml. A spec that fails is reported with all its mistakes, and nothing is written for it; the
    others go on. Files that are up to date are left alone, and nothing is compiled for them; files that were
    edited by hand are not overwritten without --force.
    """
    from symgrad.cli.specs import Writing, generate

    asked = _request(
        specs, out, tests, kernels=kernels, targets=targets, full=full, prove=prove, cache=cache, jobs=jobs
    )
    return generate(_terminal(), asked, Writing(force, prune, dry=dry_run or diff, diff=diff))


@main.command()
@_specs_argument
@_out_option
@_tests_option
@click.option("--force", is_flag=True, help="Overwrite files that were edited by hand.")
@click.option("--prune", is_flag=True, help="Remove generated files that no spec gives any more.")
@_kernels_option
@_target_option
@_cache_option
@_jobs_option
@_verbosity
def watch(
    specs: tuple[Path, ...],
    out: Path | None,
    tests: Path | None,
    force: bool,
    prune: bool,
    kernels: bool | None,
    targets: tuple[str, ...],
    cache: bool,
    jobs: int | None,
) -> int:
    """Generate, and again whenever a SPEC changes, until Ctrl-C.

    Takes the arguments of gen. Mistakes are told, and looked at again when the spec is saved.
    """
    from symgrad.cli.specs import Writing
    from symgrad.cli.specs import watch as watch_specs

    def ask() -> Request:
        return _request(specs, out, tests, kernels=kernels, targets=targets, cache=cache, jobs=jobs)

    return watch_specs(_terminal(), ask, Writing(force, prune))


@main.command()
@_specs_argument
@_out_option
@_tests_option
@click.option("--force", is_flag=True, help="Accepted as by gen; no file is written either way.")
@click.option("--prune", is_flag=True, help="Accepted as by gen; no file is removed either way.")
@_full_option
@_prove_option("Compile every spec, and let SymPy judge its values and derivatives, too.")
@_kernels_option
@_target_option
@_jobs_option
@_verbosity
def check(
    specs: tuple[Path, ...],
    out: Path | None,
    tests: Path | None,
    force: bool,
    prune: bool,
    full: bool,
    prove: bool,
    kernels: bool | None,
    targets: tuple[str, ...],
    jobs: int | None,
) -> int:
    """Tell which files are stale, hand-edited, missing or left over.

    Takes the arguments of gen, and writes nothing. The exit status is 1 unless all files are up to date (and, with
    --prove, nothing is refuted).
    """
    from symgrad.cli.specs import check as check_files

    asked = _request(specs, out, tests, kernels=kernels, targets=targets, full=full, prove=prove, jobs=jobs)
    return check_files(_terminal(), asked)


@main.command()
@_specs_argument
@click.option("--latex", is_flag=True, help="Print formulas and derivatives as LaTeX, and nothing else.")
@_prove_option("Let SymPy judge values and derivatives, too.", default=True)
@_target_option
@_jobs_option
@_verbosity
def explain(specs: tuple[Path, ...], latex: bool, prove: bool, targets: tuple[str, ...], jobs: int | None) -> int:
    """Show how every SPEC is compiled, and why.

    What was gained over autograd, derivatives, the rules that rewrote them, the forms to choose from (three of each;
    all with -v), what is saved for the backward pass in each target, the measured accuracy, and what is proven.
    """
    from symgrad.cli.specs import explain as explain_specs
    from symgrad.cli.specs import show_latex

    if latex:
        return show_latex(_terminal(), _found(specs))
    targets = targets or _config().targets
    return explain_specs(_terminal(), _found(specs), targets=targets, prove=prove, jobs=jobs)


@main.command()
@_specs_argument
@_target_option
@_jobs_option
@_verbosity
def prove(specs: tuple[Path, ...], targets: tuple[str, ...], jobs: int | None) -> int:
    """Prove the values and derivatives of every SPEC.

    A differential field, and SymPy for the functions in it, differentiate each formula as written, not symgrad's
    rules; that the emitted form is equal is proven in that field of rational functions, else compared to 50 digits at
    many points. One line for each value, gradient, tangent and given gradient; the exit status is 1 if one is refuted.
    For JAX and MLX alone there are no gradients to prove: they make them of the tangents, by transposition.
    """
    from symgrad.cli.prove import prove as prove_specs

    return prove_specs(_terminal(), _found(specs), targets=targets or _config().targets, jobs=jobs)


@main.command()
@_specs_argument
@click.option("--html", is_flag=True, default=True, help="As HTML pages that load nothing, the only form so far.")
@click.option(
    "-o",
    "--out",
    default="reports",
    show_default=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the pages.",
)
@click.option(
    "--bench",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Figures that `symgrad bench --json FILE` wrote, to be shown.",
)
@_prove_option("Prove values and derivatives for it, which takes SymPy.", default=True)
@_jobs_option
@_verbosity
def report(specs: tuple[Path, ...], html: bool, out: Path, bench: Path | None, prove: bool, jobs: int | None) -> int:
    """Write a page about every SPEC.

    It is DIR/NAME.html: the formula and its derivatives, how their forms were derived with the error at each step,
    errors over each input beside those of autograd, what is saved for the backward pass, and what is proven.
    """
    import json

    from symgrad.cli.prove import report as write_report

    try:
        rows = json.loads(bench.read_text(encoding="utf-8")) if bench else []
        if not (isinstance(rows, list) and all(isinstance(row, dict) and "op" in row for row in rows)):
            raise ValueError("no list of measurements")
    except (OSError, ValueError) as error:
        raise click.BadParameter(f"{bench}: not what `symgrad bench --json` writes ({error})") from None
    return write_report(_terminal(), _found(specs), out, bench=rows, proven=prove, jobs=jobs)


@main.command()
@_specs_argument
@click.option(
    "-o",
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for a file of each operation; without it they are printed.",
)
@_verbosity
def convert(specs: tuple[Path, ...], out: Path | None) -> int:
    """Write every SPEC as YAML: functions of Python files, and specs in their canonical form."""
    from symgrad.cli.specs import convert as convert_specs

    return convert_specs(_terminal(), _found(specs), out)


_DTYPES = ("float32", "float64", "bfloat16", "float16")


@main.command()
@click.argument("modules", nargs=-1, required=True, metavar="MODULE...", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    metavar="DTYPE",
    type=click.Choice(_DTYPES),
    default=_DTYPES,
    help=f"Only for this dtype ({', '.join(_DTYPES)}); may be given several times.",
)
@_verbosity
def build(modules: tuple[Path, ...], dtypes: tuple[str, ...]) -> int:
    """Compile the fused passes of generated modules ahead of time.

    A MODULE is a generated Python file, or a folder with all modules in it. The libraries go where the
    modules look for them: $SYMGRAD_CACHE, or symgrad in the user's cache folder.
    """
    from symgrad.cli.kernels import build as build_modules

    files = [file for path in modules for file in (sorted(path.glob("*.py")) if path.is_dir() else [path])]
    with_passes = [f for f in files if f.with_name(f"{f.stem}.cpp").exists()]
    if not with_passes:
        raise click.UsageError("No module with fused passes: generate them with `symgrad gen --kernels`.")
    return build_modules(_terminal(), with_passes, dtypes)


def _several(name: str, kind: Any, default: tuple[object, ...], what: str) -> Callable[[F], F]:
    """An option that may be given several times, each of which is measured."""
    shown = ", ".join(map(str, default))
    return click.option(
        name,
        f"{name.strip('-')}s",
        multiple=True,
        metavar=name.strip("-").upper(),
        type=kind,
        default=default,
        help=f"{what}; may be given several times.  [default: {shown}]",
    )


@main.command()
@_specs_argument
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="TARGET",
    type=click.Choice(TARGETS),
    default=("torch",),
    show_default=True,
    help=f"Measure the module for this framework ({', '.join(TARGETS)}); may be given several times.",
)
@_several("--size", click.IntRange(min=1), (1 << 22,), "Elements of the largest tensor")
@_several("--dtype", click.Choice(_DTYPES), ("float32",), f"Dtype of the tensors: {', '.join(_DTYPES)}")
@_several("--device", click.Choice(("cpu", "cuda")), ("cpu",), "Where they are: cpu, cuda")
@click.option("--threads", metavar="N", type=click.IntRange(min=1), help="Threads; by default as many as torch takes.")
@click.option(
    "--rounds",
    metavar="N",
    type=click.IntRange(min=2),
    default=11,
    show_default=True,
    help="Measurements of each form.",
)
@click.option(
    "--natives",
    metavar="FILE",
    type=click.Path(exists=True, path_type=Path),
    help="Python file with torch's own functions, by the names of the operations.",
)
@click.option("--compile/--no-compile", "compiled", default=True, help="Whether to measure torch.compile too.")
@click.option("--json", metavar="FILE", type=click.Path(path_type=Path), help="Write the figures as JSON.")
@click.option("--plot", metavar="FILE", type=click.Path(path_type=Path), help="Draw time over size (PNG, SVG).")
@_verbosity
def bench(
    specs: tuple[Path, ...],
    targets: tuple[str, ...],
    sizes: tuple[int, ...],
    dtypes: tuple[str, ...],
    devices: tuple[str, ...],
    threads: int | None,
    rounds: int,
    natives: Path | None,
    compiled: bool,
    json: Path | None,
    plot: Path | None,
) -> int:
    """Measure every SPEC: forward and backward, memory, first call.

    The composite under autograd, the generated module without and with fused passes, torch.compile
    of the composite, torch's own kernel, and the time that the memory itself needs; in turn, in one run.

    For JAX and MLX: forward and backward in one compiled function, in float32 on the framework's default device, and
    what reverse mode keeps, beside the composite's. Of the options --size, --rounds and --json hold for them.
    """
    from symgrad.cli.kernels import bench as measure_specs
    from symgrad.cli.kernels import bench_arrays

    others = [name for name in targets if name != "torch"]
    if others:
        if "torch" in targets:
            raise click.UsageError("PyTorch is measured in a run of its own: its table has other columns.")
        return bench_arrays(_terminal(), _found(specs), others, sizes=sizes, rounds=rounds, json=json)
    return measure_specs(
        _terminal(),
        _found(specs),
        sizes=sizes,
        dtypes=dtypes,
        devices=devices,
        threads=threads,
        rounds=rounds,
        natives=natives,
        compiled=compiled,
        json=json,
        plot=plot,
    )


main.add_command(audit)


@main.command()
@click.argument("name")
@click.option(
    "-o",
    "--out",
    default="specs",
    show_default=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the spec.",
)
@_verbosity
def new(name: str, out: Path) -> int:
    """Write a commented spec to start from.

    It is DIR/NAME.yaml. NAME is snake_case, such as smooth_l1.
    """
    from symgrad.cli.specs import start_spec
    from symgrad.spec.names import op_fault

    fault = op_fault(name)
    if fault is not None:
        raise click.BadParameter(f"{fault}.", param_hint="'NAME'")
    return start_spec(_terminal(), name, out)


@main.command()
@click.argument("name", required=False)
@click.option("--markdown", is_flag=True, help="All of them, as tables of a page.")
@_verbosity
def functions(name: str | None, markdown: bool) -> int:
    """List the functions and tensor operations that formulas may have.

    With NAME, one: what it means, its derivative, its domain, the convention at a kink, and whether
    kernels have it.
    """
    from symgrad.cli import functions as known

    try:
        if markdown:
            click.echo(known.markdown(), nl=False)
            return 0
        for found in known.named(name) if name else known.entries():
            click.echo("\n".join(found.lines()) if name else found.signature)
    except SymgradError as error:
        _terminal().problem(str(error))
        return 1
    return 0


@main.command()
@_verbosity
def schema() -> int:
    """Print the JSON schema of specs, for editors."""
    import json

    from symgrad.spec.schema import json_schema

    click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))
    return 0


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@_verbosity
def completion(shell: str) -> int:
    """Print a script that completes commands in SHELL.

    \b
    bash:  eval "$(symgrad completion bash)"            in ~/.bashrc
    zsh:   eval "$(symgrad completion zsh)"             in ~/.zshrc
    fish:  symgrad completion fish | source             in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    assert script is not None, "a choice that click does not know"
    # Not source(): for bash it first asks the installed bash for its version.
    parts = script(main, {}, "symgrad", "_SYMGRAD_COMPLETE")
    click.echo(parts.source_template % parts.source_vars())
    return 0
