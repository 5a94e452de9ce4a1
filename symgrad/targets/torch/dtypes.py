"""The dtype that torch gives to a formula: values without dimensions do not count beside those that have some."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from symgrad.accuracy.widening import DOUBLE, SINGLE, WIDEN
from symgrad.analysis.integers import WHOLE, is_integer
from symgrad.ir.expr import OO, Expr, symbol
from symgrad.ir.traversal import kept, substitute, topological
from symgrad.lower.code import Code, code, keyword, source, tuple_of
from symgrad.ops.tensors import TENSOR_OPS, data_arguments, is_index, is_number, typed_arguments
from symgrad.ops.tensors.extent import SCALAR
from symgrad.ops.tensors.shapes import extent


@dataclass(frozen=True)
class Total:
    """A value without dimensions, whatever those of the operands that it is reduced from."""

    of: Operands


@dataclass(frozen=True)
class Floated:
    """A tensor of whole numbers of which a formula computes what is not whole: torch makes floats of it."""

    of: Expr


@dataclass(frozen=True)
class Places:
    """Floats that torch makes of places, perhaps of a single one that has no dimensions."""

    single: bool


@dataclass(frozen=True)
class Made:
    """Floats that torch makes of some tensors where integers are given for all of them; those of the tensors that are
    `shaped` have a part in the number of dimensions, and the others are in totals."""

    of: frozenset[Expr]
    shaped: frozenset[Expr]


Operand: TypeAlias = "Expr | Total | Floated | Places"
Operands: TypeAlias = "frozenset[Operand]"

_CHOSEN = frozenset({"where", "relu", "heaviside"})
_FLOATING = frozenset({"floated", "logsumexp"})  # the tensor operations that make floats of whole numbers
_OF_ANY = frozenset(
    {"relu", "heaviside", DOUBLE, SINGLE, WIDEN}
)  # what torch computes of whole numbers without floats, or in a given dtype


def promoted(root: Expr) -> Operands:
    """What the dtype of a formula is promoted from: tensors, and totals of tensors."""
    operands = _marked(_operands(root), floated_in(root))
    if _is_total(operands):
        (only,) = operands
        assert isinstance(only, Total)
        return only.of
    tensors = _flat(operands)
    return operands if len(tensors) > 1 else tensors


def _marked(operands: Operands, floated: frozenset[Expr]) -> Operands:
    """The operands, those of which floats are made as such, in totals too."""
    totals = frozenset(Total(_marked(o.of, floated)) for o in operands if isinstance(o, Total))
    return totals | frozenset(Floated(o) if o in floated else o for o in operands if not isinstance(o, Total))


@kept
def _operands(root: Expr) -> Operands:
    found: set[Operand] = set()
    seen: set[Expr] = set()
    stack = [root]
    order = topological(root)
    counts = any(n.op == "arange" for n in order)
    # A divisor beside a float is no float of its own.
    products = [n for n in order if counts and n.op == "mul" and not _is_of_places(n)]
    divisors = {a for n in products for a in n.args if _is_divisor(a) and is_integer(a.args[0])}
    while stack:
        node = stack.pop()
        if node in seen or node.is_boolean or node.is_static:
            continue
        seen.add(node)
        if counts and _is_of_places(node) and not is_integer(node):
            found |= frozenset() if node in divisors else {Places(extent(node) == SCALAR)}
        elif node.op == "sym":
            found.add(node)
        elif is_index(node):
            continue  # integers leave the dtype to others
        elif node.op in TENSOR_OPS:
            # What cancelled out of a formula still has a part in its dtype.
            read = node.args if node.op == "expand" else typed_arguments(node)
            inner = frozenset[Expr | Total]().union(*map(_operands, read))
            found |= {Total(inner)} if inner and extent(node) == SCALAR and not _is_total(inner) else inner
        elif is_choice_of_numbers(node):
            found |= {s for s in node.args[0].tensors if s["kind"] == "tensor"}  # numbers, as the condition's operands
        else:
            stack += node.args[1:] if node.op == "where" else node.args
    return frozenset(found)


def _is_of_places(node: Expr) -> bool:
    """Whether a value is computed of places alone: where it is not whole, torch makes floats of its default type."""
    if is_number(node):
        return False
    pending, places = [node], False
    while pending:
        part = pending.pop()
        places = places or part.op == "arange"
        if part.op == "arange" or is_number(part):
            continue
        if part.op == "sym" or is_index(part) or part.is_boolean:  # a choice has the dtype of a tensor
            return False
        pending += data_arguments(part)
    return places


def has_places(root: Expr) -> bool:
    """Whether the floats that torch makes of places, of its default type, are among what a dtype is promoted from."""
    return any(isinstance(o, Places) and not o.single for o in _flat(promoted(root)))


def _flat(operands: Operands) -> Operands:
    """All tensors, also those in totals."""
    parts = (_flat(o.of) if isinstance(o, Total) else frozenset({o}) for o in operands)
    return frozenset[Operand]().union(*parts)


def floated_in(root: Expr) -> frozenset[Expr]:
    """The tensors of whole numbers, as declared, of which a function is computed that is not whole."""
    order = topological(root)
    # A divisor beside a float is no float of its own.
    beside = {a for n in order if n.op == "mul" and _has_float(n) for a in n.args if _is_divisor(a)}
    nodes = [n for n in order if not (n.is_static or n.is_boolean or n in beside or _keeps_whole(n))]
    return frozenset(s for n in nodes for s in n.tensors if s["kind"] == "int_tensor")


def whole_operands(node: Expr) -> tuple[Expr, ...]:
    """The operands of a value if all are whole numbers and torch makes floats of them, of the default dtype alone."""
    if node.is_static or node.is_boolean or node.op in _OF_ANY or is_integer(node):
        return ()
    if node.op == "where":
        return tuple(filter(_is_counted, node.args[1:])) if _is_choice_of_floats(node) else ()
    if node.op in TENSOR_OPS and node.op not in _FLOATING:
        return ()
    read = tuple(a for a in data_arguments(node) if not is_number(a))
    if node.op == "pow" and not _is_power_of_floats(node):
        return ()
    drawn = any(a.op == "random_bits" for a in read)  # as floats of the dtype
    return read if not drawn and all(map(_is_counted, read)) else ()


def _is_power_of_floats(power: Expr) -> bool:
    """Whether a number makes floats of whole numbers to a power; of whole ones alone torch makes whole ones."""
    base, exponent = power.args
    if is_number(base):
        return not is_whole(base)
    return is_number(exponent) and ((exponent.number or 0) < 0 or not is_whole(exponent))


def _is_counted(value: Expr) -> bool:
    """Whether torch has a value as a tensor of integers: of places, or of integers that are declared."""
    if not is_integer(value):
        return False
    data = topological(value, leaves=frozenset(n for n in topological(value) if n.is_boolean))
    return any(n.get("kind") == "int_tensor" or (is_index(n) and not is_number(n)) for n in data)


def beside(formulas: Iterable[Expr]) -> Operands:
    """What decides the dtype of the floats that are made of whole numbers in some formulas: that of the results, or
    where these have several the widest one of the tensors in them."""
    found = {promoted(f) for f in formulas if any(map(_is_counted, topological(f)))}
    tensors = {o for of in found for o in _flat(of) if isinstance(o, Expr) and o["kind"] == "tensor"}
    if len(found) < 2 or len(tensors) < 2:
        return next(iter(found)) if tensors and len(found) == 1 else frozenset(tensors)
    return frozenset({Total(frozenset(Total(frozenset({t})) for t in tensors))})


@kept
def floated_groups(root: Expr) -> tuple[Made, ...]:
    """Tensors declared as floats of which a function makes floats where integers are given for all of them.

    What is made of all tensors of the formula is left out: its dtype is that of the formula. So is what is reduced
    beside others, which may have no dimensions and no weight then.
    """
    while root.op in TENSOR_OPS and len(data_arguments(root)) == 1:
        (root,) = data_arguments(root)
    declared = {symbol(s.name, "int_tensor"): s for s in root.tensors if s["kind"] == "tensor"}
    found: set[Made] = set()
    pending = [substitute(root, {s: given for given, s in declared.items()})]
    seen = set(pending)
    while pending:
        node = pending.pop()
        row = TENSOR_OPS.get(node.op)
        if row is not None and row.shape_of != 0:
            continue
        if _makes_floats(node):
            shaped = _operands(node)
            found.add(Made(_in(declared, node.tensors), _in(declared, (o for o in shaped if isinstance(o, Expr)))))
        # A divisor is no float of its own, and of whole numbers to the power of others torch makes whole ones.
        read = [a.args[0] if node.op == "mul" and _is_divisor(a) else a for a in data_arguments(node)]
        pending += [a for a in read if a not in seen and not a.is_boolean]
        seen.update(read)
    every = frozenset(declared.values())
    return tuple(sorted((g for g in found if g.of and g.of < every), key=lambda g: (_names(g.of), _names(g.shaped))))


def _in(declared: Mapping[Expr, Expr], symbols: Iterable[Expr]) -> frozenset[Expr]:
    return frozenset(declared[s] for s in symbols if s in declared)


def _names(tensors: Iterable[Expr]) -> list[str]:
    return sorted(s.name for s in tensors)


def _makes_floats(node: Expr) -> bool:
    if node.is_static or node.is_boolean or node.op == "where" or is_integer(node):
        return False
    if node.op == "pow" and node.args[1].number is None:
        return False
    read = [a for a in data_arguments(node) if not a.is_static]
    return bool(read) and all(map(is_integer, read))


def _has_float(node: Expr) -> bool:
    return any(s["kind"] == "tensor" or s.is_differential for s in node.tensors)


def _is_divisor(factor: Expr) -> bool:
    n = factor.args[1].integer if factor.op == "pow" else None
    return n is not None and n < 0


def _keeps_whole(node: Expr) -> bool:
    """Whether a value is whole if what it is made of is, or a float by what else it is made of."""
    if node.op in _FLOATING or _is_choice_of_floats(node):
        return node.op == "logsumexp" and not is_integer(node.args[0])
    if node.op in TENSOR_OPS or node.op in _CHOSEN or _has_float(node):
        return True
    numbers = [a for a in node.args if a.is_static]
    if node.op == "pow" and _is_negative(numbers):
        return False
    return node.op in {"sym", "pow", *WHOLE} and all(map(is_whole, numbers))


def _is_choice_of_floats(node: Expr) -> bool:
    """Whether it chooses between whole numbers and one number that is not."""
    if node.op != "where" or node.args[0].is_static or node.is_boolean:
        return False
    numbers = [a for a in node.args[1:] if is_number(a)]
    return len(numbers) == 1 and not is_whole(numbers[0]) and all(a in numbers or is_integer(a) for a in node.args[1:])


def _is_negative(numbers: list[Expr]) -> bool:
    return any((n.number or 0) < 0 for n in numbers)


def is_whole(number: Expr) -> bool:
    """Whether a number that no tensor is part of is a Python int, or no bound at all."""
    if number in (OO, -OO):
        return True
    leaves = [n for n in topological(number) if not n.args]
    whole = all(n["kind"] in ("int", "bool") if n.op == "sym" else n.number is not None for n in leaves)
    return whole and all(n.number is None or n.integer is not None for n in topological(number))


def _is_total(operands: Operands) -> bool:
    return len(operands) == 1 and all(isinstance(o, Total) for o in operands)


def printed(operands: Operands, names: Mapping[Expr, str | Code], groups: Iterable[Made] = ()) -> Code:
    """The dtype as code, where floats are made of the tensors of some groups."""
    alone = _alone(operands)
    made = [_made(group, names) for group in groups]
    if len(alone) == 2 and not made:
        first, second = in_order(_named(t, names) for t in alone)
        return code("torch.promote_types({0}.dtype, {1}.dtype)", first, second)
    return code("rt.result_dtype({0})", [*operands_in_order(operands, names), *made])


def _made(group: Made, names: Mapping[Expr, str | Code]) -> Code:
    of, shaped = (in_order(_named(t, names) for t in tensors) for tensors in (group.of, group.shaped))
    return code("rt.made({0})", [*of, *([] if len(of) == len(shaped) else [keyword("shaped", tuple_of(shaped))])])


def operands_in_order(operands: Operands, names: Mapping[Expr, str | Code]) -> list[Code]:
    """The operands as code."""
    return in_order(_operand(o, names) for o in operands)


def in_order(expressions: Iterable[Code]) -> list[Code]:
    """Expressions sorted as they read."""
    return sorted(expressions, key=source)


def _named(value: Expr, names: Mapping[Expr, str | Code]) -> Code:
    return code("{0}", names[value])


def lender(tensors: Iterable[Expr]) -> Expr | None:
    """The one of these tensors of which a choice between numbers takes the dtype."""
    return min(tensors, key=lambda s: s.name, default=None)


def _alone(operands: Operands) -> frozenset[Expr]:
    """The tensors whose dtypes decide alone: there are none but totals, of each of these and perhaps of several."""
    totals = [o.of for o in operands if isinstance(o, Total)]
    alone = frozenset(t for of in totals if len(of) == 1 for t in of if isinstance(t, Expr))
    return alone if len(totals) == len(operands) and all(of <= alone for of in totals) else frozenset()


def _operand(operand: Operand, names: Mapping[Expr, str | Code]) -> Code:
    if isinstance(operand, Places):
        return code("torch.empty(())" if operand.single else "torch.empty(1)")
    if isinstance(operand, Floated):
        return code("rt.floated({0})", names[operand.of])
    if isinstance(operand, Total):
        return code("torch.empty((), dtype={0})", printed(operand.of, names))
    return _named(operand, names)


def is_choice_of_numbers(node: Expr) -> bool:
    """Whether a tensor of truth values decides between two numbers."""
    return node.op == "where" and not node.args[0].is_static and all(a.is_static for a in node.args[1:])


def cast(value: Code, formula: Expr, names: Mapping[Expr, str | Code]) -> Code:
    """A result in the dtype of all that it is made of: a part may have cancelled out, and a choice between numbers,
    wherever it stands but in a comparison, has the dtype of one tensor only. Numbers that are drawn leave the dtype to
    others."""
    nodes = topological(formula)
    drawn = any(node.op == "random_bits" for node in nodes) and not is_index(formula)
    compared = [node for node in nodes if node.is_boolean]
    chosen = any(map(is_choice_of_numbers, topological(formula, leaves=compared)))
    operands = promoted(formula) if formula.op == "expand" or chosen or drawn else frozenset()
    return code("{0}.to({1})", value, printed(operands, names)) if len(operands) > (0 if drawn else 1) else value


def rounds_floats(formula: Expr, formulas: Iterable[Expr]) -> bool:
    """Whether whole numbers in a formula become floats of the dtypes of others, which may be wider than its own."""
    made = any(map(whole_operands, topological(formula)))
    return made and beside(formulas) not in (frozenset(), promoted(formula))
