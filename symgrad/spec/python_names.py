"""Names in a Python file: what a function under `@symgrad.op` assigns, constants that it reads, what others mean."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeAlias

__all__ = [
    "Assigned",
    "Function",
    "aliases",
    "assigned",
    "constants_of",
    "decorated",
    "meanings",
    "read_in",
    "resolved",
    "shape_of",
    "told_apart",
]

Function: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef"

# A name, the expression it stands for, and which of its results where it has several.
Assigned = tuple[ast.Name, ast.expr, int | None]


def decorated(tree: ast.Module, *, every: bool = False) -> Iterator[tuple[Function, ast.expr | None]]:
    """The functions under `@symgrad.op`, whatever name it was imported by, with that decorator.

    With `every` all functions, for one whose decorator was applied in another way.
    """
    modules, names = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name for alias in node.names if alias.name == "symgrad"}
        elif isinstance(node, ast.ImportFrom) and node.module == "symgrad":
            names |= {alias.asname or alias.name for alias in node.names if alias.name == "op"}
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for function in sorted(functions, key=lambda f: f.lineno):
        found = None
        for decorator in function.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            dotted = isinstance(called, ast.Attribute) and called.attr == "op" and isinstance(called.value, ast.Name)
            if (dotted and called.value.id in modules) or (isinstance(called, ast.Name) and called.id in names):  # type: ignore[attr-defined]
                found = decorator
        if found is not None or every:
            yield function, found


def assigned(statement: ast.stmt) -> list[Assigned]:
    """What a statement assigns to names; nothing if it is no such assignment.

    `a, b = x, y` assigns each, and `values, indices = torch.max(x, -1)` the results of one call, but for `_`; the first
    or last of several targets may be one with a star, `*_, d = x.shape`, for which nothing is assigned.
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
    count = len(target.elts)
    if len(names) == count - 1 and isinstance(target.elts[0], ast.Starred) and shape_of(value) is not None:
        return [(name, value, k - count) for k, name in enumerate(names, 1) if name.id != "_"]
    if len(names) == count - 1 and isinstance(target.elts[-1], ast.Starred) and shape_of(value) is not None:
        return [(name, value, k) for k, name in enumerate(names) if name.id != "_"]
    if len(names) != count:
        return []
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice) and shape_of(value.value) is not None:
        first = _whole(value.slice.lower)
        return [] if first is None else [(n, value.value, first + k) for k, n in enumerate(names) if n.id != "_"]
    if isinstance(value, ast.Call | ast.Name | ast.Attribute):
        return [(name, value, k) for k, name in enumerate(names) if name.id != "_"]
    if not isinstance(value, ast.Tuple | ast.List) or len(value.elts) != len(names):
        return []
    return [(name, part, None) for name, part in zip(names, value.elts, strict=True)]


def _whole(bound: ast.expr | None) -> int | None:
    """Where a slice starts; None where that is no plain number."""
    sign = -1 if isinstance(bound, ast.UnaryOp) and isinstance(bound.op, ast.USub) else 1
    number = bound.operand if isinstance(bound, ast.UnaryOp) else bound
    if number is None:
        return 0
    return sign * number.value if isinstance(number, ast.Constant) and type(number.value) is int else None


def aliases(let: Mapping[str, Assigned]) -> dict[str, str]:
    """The names that are no values: `dtype = x.dtype`, `device = x.device`, `size = x.size()`, each with what it is."""
    found: dict[str, str] = {}
    for name, (_, value, part) in let.items():
        of = shape_of(value)
        owner = value.value if isinstance(value, ast.Attribute) else of
        known = of is not None or (isinstance(value, ast.Attribute) and value.attr in ("dtype", "device"))
        if known and part is None and isinstance(owner, ast.Name):
            found[name] = f"{owner.id}.{'shape' if of is not None else getattr(value, 'attr', '')}"
    return found


def shape_of(value: ast.expr) -> ast.expr | None:
    """The tensor of which `x.shape` or `x.size()` is all sizes; None for anything else."""
    called = isinstance(value, ast.Call) and not value.args and not value.keywords
    of = value.func if isinstance(value, ast.Call) and called else value
    return of.value if isinstance(of, ast.Attribute) and of.attr == ("size" if called else "shape") else None


def told_apart(function: Function) -> Iterator[ast.Name]:
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
    bound = Counter(name for name, _ in _bindings(module))
    found = {name.id: (name, value, part) for s in module.body for name, value, part in assigned(s)}
    known = {name: entry for name, entry in found.items() if bound[name] == 1 and _is_number(entry[1])}
    needed: set[str] = set()
    fresh = wanted & set(known)
    while fresh:
        needed |= fresh
        fresh = read_in(known[name][1] for name in fresh) & set(known) - needed
    return {name: entry for name, entry in known.items() if name in needed}


def meanings(
    module: ast.Module, function: Function, outside: Mapping[str, str]
) -> tuple[Mapping[str, str], frozenset[str]]:
    """What each name stands for in the file: the dotted name of what is imported (`torch.tanh`), or an empty text for
    what is defined or assigned there. And the names that functions around this one bind.

    `outside` is what the names are bound to that the file does not bind, as in the other cells of a notebook.
    """
    found = dict(outside)
    around: set[str] = set()
    for scope in (module, *_around(module, function)):
        here: dict[str, str] = {}
        for name, value in _bindings(scope):
            origin = value if isinstance(value, str) else _origin(value, {**found, **here})
            here[name] = origin if here.get(name, origin) == origin else ""
        found |= here
        around |= set() if scope is module else set(here)
    return found, frozenset(around)


def resolved(
    values: Iterable[ast.expr], local: Collection[str], meant: Mapping[str, str], around: Collection[str]
) -> Iterator[tuple[ast.Name, str]]:
    """Give what is imported its full name where that says more, and yield what formulas cannot read, with the reason.

    A formula knows functions by what the language means: torch's have their plain names, those of others the name of
    their module before it. `local` names are those that the function itself binds.
    """
    nodes = [n for value in values for n in ast.walk(value)]
    called = {id(n.func) for n in nodes if isinstance(n, ast.Call)}
    for node in nodes:
        if not isinstance(node, ast.Name) or node.id not in meant or (node.id in local and id(node) not in called):
            continue
        origin = meant[node.id]
        if not origin and node.id in around:
            yield node, f"{node.id!r} is of the function around, which is not run; make it an argument after '*'"
        elif not origin:
            cure = "what it computes" if id(node) in called else "its value"
            yield node, f"{node.id!r} is this file's own, which is not run; write {cure} here"
        elif origin.partition(".")[0] not in _KNOWN:
            owner = origin.rpartition(".")[0] or origin
            yield node, f"{node.id!r} is of {owner!r}, which is not run; write what it computes here"
        elif not (node.id == origin or _ALIASES.get(node.id) == origin or _is_torchs(node.id, origin)):
            node.id = f"sympy.{origin.rpartition('.')[2]}" if origin.startswith("sympy.") else origin


_KNOWN = frozenset({"torch", "math", "numpy", "sympy", "jax", "scipy"})
_OF_PLAIN_NAMES = frozenset({"torch", "torch.special", "torch.linalg", "torch.nn.functional", "scipy.special"})
_ALIASES = {"np": "numpy", "jnp": "jax.numpy", "sp": "sympy", "F": "torch.nn.functional", "nn": "torch.nn"}


def _is_torchs(name: str, origin: str) -> bool:
    """Whether a name is that of a function of torch, or of one of SciPy's that is torch's too."""
    owner, _, own = origin.rpartition(".")
    return own == name and owner in _OF_PLAIN_NAMES


def _origin(value: ast.expr | None, known: Mapping[str, str]) -> str:
    """The dotted name of an expression such as `torch.nn.functional`, or an empty text."""
    if isinstance(value, ast.Name):
        return known.get(value.id, "")
    owner = _origin(value.value, known) if isinstance(value, ast.Attribute) else ""
    return f"{owner}.{value.attr}" if isinstance(value, ast.Attribute) and owner else ""


def _around(module: ast.Module, function: Function) -> list[Function]:
    """The functions around a function, the outermost first."""
    functions = [n for n in ast.walk(module) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [f for f in functions if f is not function and any(n is function for n in ast.walk(f))]


def _bindings(scope: ast.Module | Function) -> Iterator[tuple[str, ast.expr | str | None]]:
    """The names that a module or function binds, each as often as it does, with what is imported or assigned.

    A function inside that binds one as a global counts, too.
    """
    if not isinstance(scope, ast.Module):
        yield from ((a.arg, None) for a in ast.walk(scope.args) if isinstance(a, ast.arg))
    values = {id(n): v for s in ast.walk(scope) if isinstance(s, ast.stmt) for n, v, _ in assigned(s)}
    inner = [n for n in ast.walk(scope) if isinstance(n, _SCOPES) and n is not scope]
    hidden = {id(n) for f in inner for s in f.body for n in ast.walk(s)}
    for node in ast.walk(scope):
        if isinstance(node, ast.Global):
            yield from ((name, None) for name in node.names * 2)
        elif id(node) in hidden:
            continue
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id, values.get(id(node))
        elif isinstance(node, _SCOPES) and node is not scope:
            yield node.name, None
        elif isinstance(node, ast.Import):
            for alias in node.names:  # `import a.b` binds a, and `import a.b as c` all of it
                package = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (package, package)
        elif isinstance(node, ast.ImportFrom):
            owner = "." * node.level + (node.module or "")
            yield from ((a.asname or a.name, f"{owner}.{a.name}") for a in node.names)


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _is_number(value: ast.expr) -> bool:
    """Whether an expression may be a number: it may not be a text, a truth value or a container."""
    if isinstance(value, ast.Constant):
        return isinstance(value.value, int | float) and not isinstance(value.value, bool)
    return isinstance(value, ast.Call | ast.BinOp | ast.UnaryOp | ast.Attribute | ast.Name)
