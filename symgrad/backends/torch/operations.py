"""Tensor operations as torch calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from symgrad.expr import Expr
from symgrad.tensor_ops import TENSOR_OPS, Ref

if TYPE_CHECKING:
    from symgrad.backends.torch.printer import Printer


def print_operation(printer: Printer, node: Expr) -> str:
    """The call of a tensor operation, by the row's format or its own rule."""
    special = _SPECIAL.get(node.op)
    if special is not None:
        return special(printer, node)
    row = TENSOR_OPS[node.op]
    operands = [printer.atom(a) for a in node.args]
    attributes = ", ".join(
        f"{a.name}={attribute(printer, node.get(a.name))}" for a in row.attributes if node.get(a.name) != a.default
    )
    return row.torch.format(*operands, attributes=attributes, comma=f", {attributes}" if attributes else "")


def attribute(printer: Printer, value: object) -> str:
    """An attribute as Python source; a hyperparameter by its local name."""
    if isinstance(value, Ref):
        return printer.local(value.name)
    if isinstance(value, tuple):
        items = ", ".join(attribute(printer, v) for v in value)
        return f"({items},)" if len(value) == 1 else f"({items})"
    return repr(value)


def _expand(printer: Printer, node: Expr) -> str:
    value, like = node.args
    text = printer.tensor(value, like)
    for dim in _dims(node):
        text = f"{text}.unsqueeze({attribute(printer, dim)})"
    return f"{text}.expand({printer.shape(like)})"


def _dims(node: Expr) -> list[object]:
    dim = node["dim"]
    return (
        []
        if dim is None
        else sorted(dim, key=lambda d: (isinstance(d, Ref), d if isinstance(d, int) else 0))
        if isinstance(dim, tuple)
        else [dim]
    )


def _sum_to(printer: Printer, node: Expr) -> str:
    return f"{printer.atom(node.args[0])}.sum_to_size({printer.shape(node.args[1])})"


def _count(printer: Printer, node: Expr) -> str:
    like, dim = node.args[0], node["dim"]
    if dim is None:
        return f"{printer.shape(like)}.numel()"
    dims = dim if isinstance(dim, tuple) else (dim,)
    return " * ".join(f"{printer.shape(like)}[{attribute(printer, d)}]" for d in dims)


_SPECIAL = {"expand": _expand, "sum_to": _sum_to, "count": _count}
