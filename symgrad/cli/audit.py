"""The command that reviews a hand-written Function."""

from __future__ import annotations

from typing import Any

import click

__all__ = ["audit"]


def _settings(ctx: click.Context, param: click.Parameter, pairs: tuple[str, ...]) -> dict[str, Any]:
    """Values of hyperparameters, from NAME=VALUE; a value is a Python literal, or else a text."""
    import ast

    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} is not NAME=VALUE.")
        try:
            found[name] = ast.literal_eval(value)
        except (SyntaxError, ValueError):
            found[name] = value
    return found


@click.command()
@click.argument("target", metavar="PATH.py::NAME")
@click.option("--spec", metavar="FILE", type=click.Path(exists=True, dir_okay=False), help="Spec of what it computes.")
@click.option("--formula", metavar="TEXT", help="The formula itself, in the arguments of forward: 'x * sigmoid(x)'.")
@click.option("--reference", metavar="MODULE:NAME", help="A function that computes it in plain torch operations.")
@click.option(
    "--set", "settings", metavar="NAME=VALUE", multiple=True, callback=_settings, help="Value of a hyperparameter."
)
@click.option("--only", metavar="CHECK", multiple=True, help="Run this check alone; may be given several times.")
@click.option("--skip", metavar="CHECK", multiple=True, help="Leave a check out; may be given several times.")
@click.option(
    "--target",
    "framework",
    type=click.Choice(("torch", "jax")),
    help="What it is written for.  [default: jax for what jax.custom_jvp, custom_vjp or jit made, else torch]",
)
@click.option("--time/--no-time", "timed", default=True, help="Whether to measure time.")
def audit(
    target: str,
    spec: str | None,
    formula: str | None,
    reference: str | None,
    settings: dict[str, Any],
    only: tuple[str, ...],
    skip: tuple[str, ...],
    framework: str | None,
    timed: bool,
) -> int:
    """Review a hand-written torch.autograd.Function, or a JAX function with a rule of its own.

    Holds it against its formula: values, derivatives of every order and mode, dtypes, compilers, memory. The exit
    status is 1 if a result is wrong, or something raises that should not.
    """
    from symgrad.errors import SymgradError

    if (spec is None) + (formula is None) + (reference is None) != 2:
        raise click.UsageError("Give one of --spec, --formula and --reference.")
    given: dict[str, Any] = {"spec": spec, "formula": formula, "settings": settings, "only": only, "skip": skip}
    try:
        from symgrad.testing.sources import is_of_jax, load_target

        function = load_target(target)
        given["reference"] = None if reference is None else load_target(reference)
        found: Any
        if framework == "jax" or (framework is None and is_of_jax(function)):
            from symgrad.testing.review_jax import audit as review_of_jax

            found = review_of_jax(function, **given)
        else:
            from symgrad.testing.review import audit as review

            found = review(function, timed=timed, **given)
    except ImportError as error:
        raise click.ClickException(f"audit needs {error.name}: python -m pip install {error.name}") from None
    except (SymgradError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(str(found))
    return 0 if found.ok else 1
