"""Shapes that a Python function declares by unpacking them: `b, n, d = x.shape`."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from symgrad.spec.python_names import Function, assigned, shape_of

__all__ = ["unpacked_shapes"]


def unpacked_shapes(function: Function, declared: Collection[str]) -> Iterator[tuple[ast.Assign, str, list[str]]]:
    """The statements that unpack the shape of an argument which has none yet, with the argument and its dimensions.

    A name that is anything else in the function, too, is no name of a dimension. Dimensions without a name, `_`, may be
    those of another tensor: where one has a shape, they declare nothing.
    """
    shaped = set(declared)
    found = list(_unpackings(function))
    sizes = {id(target) for _, _, targets in found for target in targets}
    others = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
    others |= {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and _is_bound(n) and id(n) not in sizes}
    for statement, tensor, targets in found:
        leading = [] if isinstance(targets[0], ast.Name) else ["..."]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        named = [name for name in names if name != "_"]
        unsure = shaped and len(named) < len(names)
        if tensor in shaped or unsure or others & set(named) or len(set(named)) < len(named):
            continue
        shaped.add(tensor)
        yield statement, tensor, leading + [f"{tensor}_{k}" if name == "_" else name for k, name in enumerate(names)]


def _unpackings(function: Function) -> Iterator[tuple[ast.Assign, str, list[ast.expr]]]:
    """Where a function unpacks the shape of an argument that has got no other value: the targets of each."""
    arguments = {a.arg for a in [*function.args.posonlyargs, *function.args.args]}
    for statement in function.body:
        targets = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if isinstance(statement, ast.Assign) and isinstance(targets, ast.Tuple | ast.List):
            owner = shape_of(statement.value)
            known = not isinstance(targets.elts[-1], ast.Starred)  # how many dimensions there are after the first
            if known and isinstance(owner, ast.Name) and owner.id in arguments and assigned(statement):
                yield statement, owner.id, targets.elts
        arguments -= {name.id for name, _, _ in assigned(statement)}


def _is_bound(name: ast.Name) -> bool:
    return not isinstance(name.ctx, ast.Load)
