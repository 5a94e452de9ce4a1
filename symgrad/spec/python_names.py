"""Names in a Python file that a formula may read: what a statement assigns, and constants of the module."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

__all__ = ["Assigned", "assigned", "called_otherwise", "constants_of", "read_in", "told_apart"]

# A name, the expression it stands for, and which of its results where it has several.
Assigned = tuple[ast.Name, ast.expr, int | None]


def assigned(statement: ast.stmt) -> list[Assigned]:
    """What a statement assigns to names; nothing if it is no such assignment.

    `a, b = x, y` assigns each, and `values, indices = torch.max(x, -1)` the results of one call, but for `_`.
    """
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value is not None:
        return [(statement.target, statement.value, None)]
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return []
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Name):
        return [(target, value, None)]
    if not isinstance(target, ast.Tuple | ast.List):
        return []
    names = [name for name in target.elts if isinstance(name, ast.Name)]
    if len(names) != len(target.elts):
        return []
    if isinstance(value, ast.Call | ast.Name | ast.Attribute):
        return [(name, value, k) for k, name in enumerate(names) if name.id != "_"]
    if not isinstance(value, ast.Tuple | ast.List) or len(value.elts) != len(names):
        return []
    return [(name, part, None) for name, part in zip(names, value.elts, strict=True)]


def told_apart(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.Name]:
    """Give every value that a name of a function has in turn a name of its own, where it is assigned and where it is
    read; and yield the names that are read before they have a value.

    The last value keeps the name, but for an argument's, whose first one has it: `x_1`, `x_2`, ..., `x_out`.
    """
    arguments = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
    taken = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)} | arguments
    called = {id(n.func) for n in ast.walk(function) if isinstance(n, ast.Call)}
    statements = [(s, [name for name, _, _ in assigned(s)]) for s in function.body]
    left = Counter(name.id for _, names in statements for name in names)
    values = dict.fromkeys(left, 0)
    current = {name: None if name not in arguments else name for name in left}
    for statement, names in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in called:
                now = current.get(node.id, node.id)
                if now is None:
                    yield node
                else:
                    node.id = now
        for target in names:
            name = target.id
            values[name] += 1
            is_last = values[name] == left[name]
            if not is_last or name in arguments:
                target.id = f"{name}_out" if is_last else f"{name}_{values[name]}"
                while target.id in taken:
                    target.id += "_"
                taken.add(target.id)
            current[name] = target.id


def read_in(values: Iterable[ast.expr]) -> set[str]:
    """The names that expressions read, but for functions that they call, and what stands before a dot as modules do."""
    nodes = [node for value in values for node in ast.walk(value)]
    others = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    others |= {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    return {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in others}


def constants_of(module: ast.Module, wanted: set[str]) -> Mapping[str, Assigned]:
    """The constants among the `wanted` names, in their order in the file, and those that they are made of.

    A constant is assigned once, at the top of the module, and is no text and no truth value.
    """
    bound = Counter(_bound(module))
    found = {name.id: (name, value, part) for s in module.body for name, value, part in assigned(s)}
    known = {name: entry for name, entry in found.items() if bound[name] == 1 and _is_number(entry[1])}
    needed: set[str] = set()
    fresh = wanted & set(known)
    while fresh:
        needed |= fresh
        fresh = read_in(known[name][1] for name in fresh) & set(known) - needed
    return {name: entry for name, entry in known.items() if name in needed}


def _bound(module: ast.Module) -> Iterator[str]:
    """The names that a module binds, each as often as it does; a function that does so as a global counts, too."""
    inner = {id(n) for f in ast.walk(module) if isinstance(f, _SCOPES) for s in f.body for n in ast.walk(s)}
    for node in ast.walk(module):
        if isinstance(node, ast.Global):
            yield from node.names * 2
        elif id(node) in inner:
            continue
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


def called_otherwise(module: ast.Module, values: Iterable[ast.expr]) -> Iterator[ast.Name]:
    """The functions that expressions call by a name that the file gives to something of its own.

    They are not run: a formula knows them by what the language means. A function under a decorator may be an operation.
    """
    own = {s.name for s in module.body if isinstance(s, ast.FunctionDef | ast.ClassDef) and not s.decorator_list}
    own |= {name.id for s in module.body for name, _, _ in assigned(s)}
    own |= {
        alias.asname
        for s in module.body
        if isinstance(s, ast.ImportFrom)
        for alias in s.names
        if alias.asname and alias.asname != alias.name
    }
    for node in (n for value in values for n in ast.walk(value)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in own:
            yield node.func


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _is_number(value: ast.expr) -> bool:
    """Whether an expression may be a number: it may not be a text, a truth value or a container."""
    if isinstance(value, ast.Constant):
        return isinstance(value.value, int | float) and not isinstance(value.value, bool)
    return isinstance(value, ast.Call | ast.BinOp | ast.UnaryOp | ast.Attribute | ast.Name)
