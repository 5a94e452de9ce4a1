"""The program around its commands: exit statuses, how much it says, and the project's table."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from symgrad.cli.terminal import Terminal
from symgrad.errors import SymgradError

if TYPE_CHECKING:
    from symgrad.cli.config import Config


F = TypeVar("F", bound=Callable[..., Any])


class Program(click.Group):
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
            if sys.stdout is not None:  # as it is where the shell closed it
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


def verbosity(command: F) -> F:
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


def terminal() -> Terminal:
    return Terminal(click.get_current_context().find_root().meta.get(_VERBOSITY, 0))


def project_config() -> Config:
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
