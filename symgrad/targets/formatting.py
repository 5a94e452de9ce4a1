"""Generated Python, formatted by ruff with settings of its own, so that the user's configuration changes nothing."""

from __future__ import annotations

import subprocess
from functools import cache

from symgrad.errors import SymgradError

_LINE_LENGTH = "100"


@cache
def _ruff() -> str:
    from ruff import find_ruff_bin

    return str(find_ruff_bin())


def format_python(text: str) -> str:
    """The text in ruff's format.

    Raises SymgradError where ruff refuses it: the text is no Python, which is a bug of symgrad.
    """
    command = [_ruff(), "format", "--isolated", "--line-length", _LINE_LENGTH, "--target-version", "py310", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode:
        raise SymgradError(f"the generated text is not valid Python, which is a bug of symgrad:\n{done.stderr.strip()}")
    return done.stdout
