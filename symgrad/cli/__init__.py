"""The command line: thin, and quick to start; what a command needs is imported when it runs."""

from symgrad.cli.commands import main

__all__ = ["main"]
