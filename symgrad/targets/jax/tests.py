"""The generated test of a JAX module: the facts of the operation, held to symgrad's suite for JAX."""

from __future__ import annotations

from symgrad.compiler.operation import Operation
from symgrad.resources import environment
from symgrad.targets.arrays.layout import Layout
from symgrad.targets.arrays.tests import facts
from symgrad.targets.formatting import format_python
from symgrad.targets.jax.spellings import JAX

__all__ = ["render_test"]


def render_test(operation: Operation, package: str = "") -> str:
    """The test of an operation's module, formatted; it imports that from `package`, from beside itself if empty."""
    context = facts(Layout(operation, JAX))
    text = environment().get_template("jax/test.py.j2").render(**context, package=package)
    return format_python(text)
