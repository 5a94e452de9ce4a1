"""Where the templates are, how they are filled in, and for which frameworks."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from symgrad.errors import SymgradError

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["TARGETS", "environment", "lacking", "module_name", "template_folder"]

TARGETS = ("torch", "jax", "mlx")

_PACKAGE = Path(__file__).resolve().parent
_LANDMARK = "new.yaml.j2"  # tells our templates from another project's folder of the same name


def module_name(op: str, target: str) -> str:
    """What the module of an operation for a target is called."""
    return op if target == "torch" else f"{op}_{target}"


def lacking(target: str) -> str:
    """What is told where a target is none, or its framework is not installed; empty where it is."""
    if target not in TARGETS:
        return f"cannot be made; the targets are {', '.join(TARGETS)}"
    try:
        import_module(target)
    except ImportError:
        name = "PyTorch" if target == "torch" else target
        return f'needs {name}, which is not installed: python -m pip install "symgrad[{target}]"'
    return ""


def template_folder(package: Path = _PACKAGE) -> Path:
    """The folder of the templates that belong to the package in the folder ``package``.

    A wheel carries them inside of the package; in a checkout (an editable install) they stand
    beside it. Raises SymgradError if they are in neither place: the installation is broken.
    """
    places = (package / "templates", package.parent / "templates")
    found = next((place for place in places if (place / _LANDMARK).is_file()), None)
    if found is None:
        raise SymgradError(f"symgrad's templates are missing from {places[0]}: install symgrad again")
    return found


@cache
def environment() -> Environment:
    """Jinja2 over the templates, for plain text: nothing is escaped, an unknown variable is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from symgrad.bytecode import TemplateCode

    folder = template_folder()
    return Environment(
        loader=FileSystemLoader(folder),
        bytecode_cache=TemplateCode(folder / "__pycache__"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
