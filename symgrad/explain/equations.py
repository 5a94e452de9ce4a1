"""The derivatives of an operation as equations for readers.

They are what backward computes, without what only brings shapes in line, and with a letter for each long part that
stands in them more than once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction

from symgrad.analysis.borders import bordered
from symgrad.compiler.operation import Variant, quantity
from symgrad.differentiate.modes import is_tensor_op
from symgrad.differentiate.ties import released
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.traversal import rebuild, substitute, topological
from symgrad.ops.tensors.extent import extent
from symgrad.parse import Program
from symgrad.parse.formula import formula, formulas

_LINE = 80  # characters of an equation that nothing needs to be taken out of
_LETTERS = "uvwrstpq"
SAME_VALUES = ("sum_to", "conform", "expand", "drop", "floated", "finite")  # they bring shapes and dtypes in line
_SHORTEST = 10  # characters of a part that is worth a letter
_EXACT = 40  # characters of a number that is shown as it is, others as decimals


def derivatives(variant: Variant, program: Program) -> list[tuple[str, str]]:
    """The equations of a variant as (label, text)."""
    return [(label, formula(value) + note) for label, value, note in equations(variant, program)]


def equations(variant: Variant, program: Program) -> list[tuple[str, Expr, str]]:
    """The partial derivatives and overrides of a variant as (label, value, note), after the parts that have letters.

    A derivative of an output that is pointwise in a tensor is a partial one; else the whole gradient is shown, in terms
    of the cotangents.
    """
    known = {value: symbol(name) for name, value in program.lets.items() if value.args}
    kept = {node for s in variant.plan.base if s.source != "input" for node in topological(s.value)}
    known |= {released(form): symbol(name) for name, form in variant.outputs.items() if form in kept}
    rows = [
        (label, readable(substitute(released(with_sizes(value)), known)), note)
        for label, value, note in _rows(variant, program)
    ]
    named, values = _with_letters([value for _, value, _ in rows], _taken(program))
    shown = [(label, value, note) for (label, _, note), value in zip(rows, values, strict=True)]
    return [*((letter, value, "") for letter, value in named), *shown]


def _rows(variant: Variant, program: Program) -> list[tuple[str, Expr, str]]:
    """Label, value and a note, by tensor."""
    rows = []
    for tensor in program.spec.tensors:
        name, own = tensor.name, program.symbols[tensor.name]
        if name in variant.overrides:
            rows.append((f"grad_{name}", variant.overrides[name].gradient, "  (override)"))
            continue
        gradients = {o: g for (o, t), g in variant.gradients.items() if t == name}
        if all((o, name) in variant.partials and _is_pointwise(variant.formulas[o], own) for o in gradients):
            rows += [(quantity(o, name), *_partial(variant, (o, name))) for o in gradients]
        else:
            rows.append((f"grad_{name}", ex.add(*gradients.values()), ""))
    return rows


def _partial(variant: Variant, key: tuple[str, str]) -> tuple[Expr, str]:
    """A partial derivative and a note; as the formula gives it where coefficients of an approximation would hide it."""
    choice = variant.slope_choices.get(key)
    if choice is None or not choice.is_approximated:
        return variant.partials[key], ""
    return substitute(choice.formula, variant.stand_ins.get(key, {})), "  (a rational approximation where it cancels)"


def _is_pointwise(value: Expr, own: Expr) -> bool:
    return not any(is_tensor_op(n) and own in n.symbols for n in topological(value))


def _taken(program: Program) -> set[str]:
    spec = program.spec
    dims = {str(d) for t in spec.tensors for d in t.shape or ()}
    return {*program.symbols, *(b.name for b in spec.let), *(o.name for o in spec.outputs), *dims}


# ------------------------------------------------------------------------------------------------ readable
def readable(root: Expr) -> Expr:
    """The formula without casts, and sums, views and expansions that undo broadcasting or restore what was dropped."""
    mapped: dict[Expr, Expr] = {}
    for node in topological(root):
        mapped[node] = _simpler(node, [mapped[a] for a in node.args])
    if root.op == "expand":
        return make("expand", mapped[root], *(mapped[a] for a in root.args[1:]))
    return mapped[root]


def _simpler(node: Expr, args: Sequence[Expr]) -> Expr:
    if node.op in SAME_VALUES:
        return args[0]
    if (found := bordered(node)) is not None:
        padded, number = found
        of = args[node.args.index(padded)]
        return make("pad", *of.args, pad=padded["pad"], value=number)
    if node.op in ("restore", "unsqueeze"):
        kept = _with_dimensions(args[0], node["dim"])
        if kept is not None or node.op == "restore":
            return args[0] if kept is None else kept
    if node.op == "matmul_left":
        return make("matmul", args[0], _transposed(args[1]))
    if node.op == "matmul_right":
        return make("matmul", _transposed(args[0]), args[1])
    if node.op == "num" and len(str(node["value"])) > _EXACT:
        return ex.num(Fraction(f"{float(node['value']):.12g}"))
    return rebuild(node, list(args))


def _transposed(value: Expr) -> Expr:
    return value.args[0] if value.op == "mT" else make("mT", value)


def _with_dimensions(value: Expr, dim: object) -> Expr | None:
    """The same reduction with `keepdim`, if it is along just these dimensions."""
    dims = dim if isinstance(dim, tuple) else (dim,)
    own = value.get("dim")
    if own is None or (own if isinstance(own, tuple) else (own,)) != dims or value.get("keepdim") is None:
        return None
    return make(value.op, *value.args, **{**dict(value.attrs), "keepdim": True})


def with_sizes(root: Expr) -> Expr:
    """The formula with numbers of elements by the names of the dimensions."""
    sizes = {n: size for n in topological(root) if n.op == "count" and (size := _size(n)) is not None}
    return substitute(root, sizes)


def _size(node: Expr) -> Expr | None:
    """A number of elements by the names of the dimensions."""
    of, dim = extent(node.args[0]), node["dim"]
    if dim is None:
        dims = of.dims if of.exact else ()
    else:
        places = dim if isinstance(dim, tuple) else (dim,)
        near = all(isinstance(p, int) and -len(of.dims) <= p < 0 for p in places)
        dims = tuple(of.dims[p] for p in places) if near else ()
    if not dims or not all(isinstance(d, str) for d in dims):
        return None
    return ex.mul(*(symbol(str(d), "int") for d in dims))


# ------------------------------------------------------------------------------------------------ letters
def _with_letters(values: Sequence[Expr], taken: Collection[str]) -> tuple[list[tuple[str, Expr]], list[Expr]]:
    """Letters for long parts that are repeated, in an order in which they can be read, and the values with these."""
    free = [letter for letter in _LETTERS if letter not in taken]
    shown, parts = list(values), dict[Expr, Expr]()
    while len(parts) < len(free) and _is_long([*shown, *parts.values()]):
        part = _most_repeated([*shown, *parts.values()])
        if part is None:
            break
        letter = symbol(f"part {len(parts)}")
        shown = [substitute(v, {part: letter}) for v in shown]
        parts = {name: substitute(v, {part: letter}) for name, v in parts.items()} | {letter: part}
    ordered = _readable_in_order(parts)
    letters = {name: symbol(letter) for name, letter in zip(ordered, free, strict=False)}
    named = [(letters[name].name, substitute(parts[name], letters)) for name in ordered]
    return named, [substitute(v, letters) for v in shown]


def _is_long(values: Sequence[Expr]) -> bool:
    texts = formulas(*values)
    return any(len(texts[value]) > _LINE for value in values)


def _most_repeated(values: Sequence[Expr]) -> Expr | None:
    """The part that a letter shortens the values by most."""
    order = topological(*values)
    times: dict[Expr, int] = dict.fromkeys(order, 0)
    for value in values:
        times[value] += 1
    for node in reversed(order):
        for argument in node.args:
            times[argument] += times[node]
    best, most = None, 0
    texts = formulas(*values)
    for node in order:
        if node.args and times[node] > 1 and node not in values and not _is_reciprocal(node):
            length = len(texts[node])
            gain = 0 if length < _SHORTEST else (times[node] - 1) * (length - 1) - len("u = ")
            if gain > most:
                best, most = node, gain
    return best


def _is_reciprocal(node: Expr) -> bool:
    """Whether a value is written below a line, where only what it is the reciprocal of has a text of its own."""
    number = node.args[1].number if node.op == "pow" else None
    return number is not None and number < 0


def _readable_in_order(parts: Mapping[Expr, Expr]) -> list[Expr]:
    """The names of the parts, each after those that it is written with."""
    found: dict[Expr, None] = {}

    def visit(name: Expr) -> None:
        for inner in parts:
            if inner in parts[name].symbols:
                visit(inner)
        found.setdefault(name)

    for name in parts:
        visit(name)
    return list(found)
