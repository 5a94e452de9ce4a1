"""The commands. Exit status: 0, or 1 if a spec or a check failed, 2 for wrong usage, 130 if interrupted."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING

import click

from symgrad import __version__
from symgrad.cli.audit import audit
from symgrad.cli.options import (
    cache_option,
    folder_option,
    found_specs,
    full_option,
    jobs_option,
    kernels_option,
    out_option,
    prove_option,
    request,
    specs_argument,
    target_option,
    tests_option,
)
from symgrad.cli.program import Program, project_config, terminal, verbosity
from symgrad.cli.speed import bench, build
from symgrad.errors import SymgradError

if TYPE_CHECKING:
    from symgrad.cli.specs import Request

__all__ = ["main"]


@click.group(
    cls=Program,
    name="symgrad",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with `symgrad new my_op`. `symgrad COMMAND --help` tells more about a command.",
)
@click.version_option(__version__, prog_name="symgrad", message="%(prog)s %(version)s")
@verbosity
def main() -> None:
    """Compile formulas into complete, verified torch.autograd.Function modules."""
    # Hundreds of thousands of expressions and hardly a cycle: looking for garbage took a tenth of the time.
    gc.set_threshold(100_000, 50, 100)


@main.command()
@specs_argument
@out_option
@tests_option
@click.option("--force", is_flag=True, help="Overwrite files that were edited by hand.")
@click.option("--prune", is_flag=True, help="Remove generated files that no spec gives any more.")
@click.option("--dry-run", is_flag=True, help="Write nothing; tell what would be written.")
@click.option("--diff", is_flag=True, help="Write nothing; show what would change.")
@full_option
@prove_option(
    "Compile every spec, write only files whose values and derivatives SymPy does not refute, and say in their "
    "docstrings what is proven."
)
@kernels_option
@target_option
@cache_option
@jobs_option
@verbosity
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

    asked = request(specs, out, tests, kernels=kernels, targets=targets, full=full, prove=prove, cache=cache, jobs=jobs)
    return generate(terminal(), asked, Writing(force, prune, dry=dry_run or diff, diff=diff))


@main.command()
@specs_argument
@out_option
@tests_option
@click.option("--force", is_flag=True, help="Overwrite files that were edited by hand.")
@click.option("--prune", is_flag=True, help="Remove generated files that no spec gives any more.")
@kernels_option
@target_option
@cache_option
@jobs_option
@verbosity
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
        return request(specs, out, tests, kernels=kernels, targets=targets, cache=cache, jobs=jobs)

    return watch_specs(terminal(), ask, Writing(force, prune))


@main.command()
@specs_argument
@out_option
@tests_option
@click.option("--force", is_flag=True, help="Accepted as by gen; no file is written either way.")
@click.option("--prune", is_flag=True, help="Accepted as by gen; no file is removed either way.")
@full_option
@prove_option("Compile every spec, and let SymPy judge its values and derivatives, too.")
@kernels_option
@target_option
@jobs_option
@verbosity
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

    asked = request(specs, out, tests, kernels=kernels, targets=targets, full=full, prove=prove, jobs=jobs)
    return check_files(terminal(), asked)


@main.command()
@specs_argument
@click.option("--latex", is_flag=True, help="Print formulas and derivatives as LaTeX, and nothing else.")
@prove_option("Let SymPy judge values and derivatives, too.", default=True)
@target_option
@jobs_option
@verbosity
def explain(specs: tuple[Path, ...], latex: bool, prove: bool, targets: tuple[str, ...], jobs: int | None) -> int:
    """Show how every SPEC is compiled, and why.

    What was gained over autograd, derivatives, the rules that rewrote them, the forms to choose from (three of each;
    all with -v), what is saved for the backward pass in each target, the measured accuracy, and what is proven.
    """
    from symgrad.cli.specs import explain as explain_specs
    from symgrad.cli.specs import show_latex

    if latex:
        return show_latex(terminal(), found_specs(specs))
    targets = targets or project_config().targets
    return explain_specs(terminal(), found_specs(specs), targets=targets, prove=prove, jobs=jobs)


@main.command()
@specs_argument
@target_option
@jobs_option
@verbosity
def prove(specs: tuple[Path, ...], targets: tuple[str, ...], jobs: int | None) -> int:
    """Prove the values and derivatives of every SPEC.

    A differential field, and SymPy for the functions in it, differentiate each formula as written, not symgrad's
    rules; that the emitted form is equal is proven in that field of rational functions, else compared to 50 digits at
    many points. One line for each value, gradient, tangent and given gradient; the exit status is 1 if one is refuted.
    For JAX and MLX alone there are no gradients to prove: they make them of the tangents, by transposition.
    """
    from symgrad.cli.prove import prove as prove_specs

    return prove_specs(terminal(), found_specs(specs), targets=targets or project_config().targets, jobs=jobs)


@main.command()
@specs_argument
@click.option("--html", is_flag=True, default=True, help="As HTML pages that load nothing, the only form so far.")
@folder_option("-o", "--out", default="reports", what="Folder of the pages.")
@click.option(
    "--bench",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Figures that `symgrad bench --json FILE` wrote, to be shown.",
)
@prove_option("Prove values and derivatives for it, which takes SymPy.", default=True)
@jobs_option
@verbosity
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
        if any("form" not in row for row in rows):
            raise ValueError("figures of --target jax or mlx, which a page does not show")
    except (OSError, ValueError) as error:
        raise click.BadParameter(f"{bench}: not what `symgrad bench --json` writes ({error})") from None
    return write_report(terminal(), found_specs(specs), out, bench=rows, proven=prove, jobs=jobs)


@main.command()
@specs_argument
@folder_option("-o", "--out", what="Folder for a file of each operation; without it they are printed.")
@verbosity
def convert(specs: tuple[Path, ...], out: Path | None) -> int:
    """Write every SPEC as YAML: functions of Python files, and specs in their canonical form."""
    from symgrad.cli.specs import convert as convert_specs

    return convert_specs(terminal(), found_specs(specs), out)


for command in (audit, bench, build):
    main.add_command(command)


@main.command()
@click.argument("name")
@folder_option("-o", "--out", default="specs", what="Folder of the spec.")
@verbosity
def new(name: str, out: Path) -> int:
    """Write a commented spec to start from.

    It is DIR/NAME.yaml. NAME is snake_case, such as smooth_l1.
    """
    from symgrad.cli.specs import start_spec
    from symgrad.spec.names import op_fault

    fault = op_fault(name)
    if fault is not None:
        raise click.BadParameter(f"{fault}.", param_hint="'NAME'")
    return start_spec(terminal(), name, out)


@main.command()
@click.argument("name", required=False)
@click.option("--markdown", is_flag=True, help="All of them, as tables of a page.")
@verbosity
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
        terminal().problem(str(error))
        return 1
    return 0


@main.command()
@verbosity
def schema() -> int:
    """Print the JSON schema of specs, for editors."""
    from symgrad.spec.schema import schema_text

    click.echo(schema_text(), nl=False)
    return 0


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@verbosity
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
