"""The command line: thin, and quick to start; what a command needs is imported when it runs."""

from symgrad.cli.commands import main
from symgrad.cli.prove import prove

__all__ = ["main"]

main.add_command(prove)
