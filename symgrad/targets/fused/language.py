"""What a language gives of its own, for passes to be written in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from symgrad.ir.expr import Expr
from symgrad.targets.fused.model import Kernel
from symgrad.targets.torch.layout import Layout

__all__ = ["Language"]


@dataclass(frozen=True)
class Language:
    """`name` is what people call it, `suffix` makes the name of its file from that of the operation.

    `runner` is the class of the runtime that runs what is in the file, `can_spell` tells whether it has a machine node,
    and `render` writes the passes of a module. `shared` gives what the files of a folder share, by file name. A module
    knows its passes by all that follows `start`; before it stand lines for tools. `has_parts` says whether its passes
    may be over parts of a dimension.
    """

    name: str
    device: str
    suffix: str
    runner: str
    can_spell: Callable[[Expr], bool]
    render: Callable[[Layout, Sequence[Kernel]], str]
    shared: Callable[[], dict[str, str]]
    start: str
    has_parts: bool = True
