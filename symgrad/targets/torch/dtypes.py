"""The dtype that torch gives to a formula: values without dimensions do not count beside those that have some."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from symgrad.analysis.integers import WHOLE, is_integer
from symgrad.ir.expr import OO, Expr, symbol
from symgrad.ir.traversal import kept, substitute, topological
from symgrad.lower.code import Code, code, source
from symgrad.ops.tensors import TENSOR_OPS, data_arguments, is_index, is_number, typed_arguments
from symgrad.ops.tensors.extent import SCALAR
from symgrad.ops.tensors.shapes import extent


@dataclass(frozen=True)
class Total:
    """A value without dimensions, whatever those of the operands that it is reduced from."""

    of: Operands


@dataclass(frozen=True)
class Floated:
    """A tensor of whole numbers, or a value of places, of which a formula computes what is not whole: torch makes
    floats of it."""

    of: Expr


Operands: TypeAlias = "frozenset[Expr | Total | Floated]"

_CHOSEN = frozenset({"where", "relu", "heaviside"})


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
    found: set[Expr | Total | Floated] = set()
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
            found |= frozenset() if node in divisors else {Floated(node)}
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


def _flat(operands: Operands) -> Operands:
    """All tensors, also those in totals."""
    parts = (_flat(o.of) if isinstance(o, Total) else frozenset({o}) for o in operands)
    return frozenset[Expr | Total | Floated]().union(*parts)


def floated_in(root: Expr) -> frozenset[Expr]:
    """The tensors of whole numbers, as declared, of which a function is computed that is not whole."""
    order = topological(root)
    # A divisor beside a float is no float of its own.
    beside = {a for n in order if n.op == "mul" and _has_float(n) for a in n.args if _is_divisor(a)}
    nodes = [n for n in order if not (n.is_static or n.is_boolean or n in beside or _keeps_whole(n))]
    return frozenset(s for n in nodes for s in n.tensors if s["kind"] == "int_tensor")


def newly_floated(forms: Iterable[Expr], formulas: Iterable[Expr]) -> frozenset[Expr]:
    """The tensors and places of whole numbers of which forms make floats alone where the formulas do so beside floats
    only.

    `x * (n + 1 / n)` divides in the default dtype, and `x * n + x / n` in that of x. What is an index, or part of a
    result of whole numbers, stays whole.
    """
    forms, formulas = tuple(forms), tuple(formulas)
    order = topological(*forms, *formulas)
    read = (n.args[k] for n in order if n.op in TENSOR_OPS for k in TENSOR_OPS[n.op].integer if k < len(n.args))
    stays = frozenset(topological(*read, *(f for f in formulas if is_integer(f))))
    counted = [n for n in order if (n.op == "arange" or is_index(n)) and n not in stays and not is_number(n)]
    whole = {n: symbol(f"_{k}", "int_tensor") for k, n in enumerate(counted)}
    before, after = ([floated_in(substitute(f, whole)) for f in group] for group in (formulas, forms))
    new = frozenset[Expr]().union(*after).difference(*before)
    named = {s: n for n, s in whole.items()}
    return frozenset(named.get(s, s) for s in new) - stays


@kept
def floated_groups(root: Expr) -> tuple[frozenset[Expr], ...]:
    """Tensors declared as floats of which a function makes floats where integers are given for all of them.

    What is made of all tensors of the formula is left out: its dtype is that of the formula. So is what is reduced
    beside others, which may have no dimensions and no weight then.
    """
    while root.op in TENSOR_OPS and len(data_arguments(root)) == 1:
        (root,) = data_arguments(root)
    declared = {symbol(s.name, "int_tensor"): s for s in root.tensors if s["kind"] == "tensor"}
    found: set[frozenset[Expr]] = set()
    pending = [substitute(root, {s: given for given, s in declared.items()})]
    seen = set(pending)
    while pending:
        node = pending.pop()
        row = TENSOR_OPS.get(node.op)
        if row is not None and row.shape_of != 0:
            continue
        if _makes_floats(node):
            found.add(frozenset(declared[s] for s in node.tensors if s in declared))
        # A divisor is no float of its own, and of whole numbers to the power of others torch makes whole ones.
        read = [a.args[0] if node.op == "mul" and _is_divisor(a) else a for a in data_arguments(node)]
        pending += [a for a in read if a not in seen and not a.is_boolean]
        seen.update(read)
    every = frozenset(declared.values())
    return tuple(sorted((g for g in found if g and g < every), key=lambda g: sorted(s.name for s in g)))


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
    n = factor.args[1].number if factor.op == "pow" else None
    return n is not None and n < 0 and n.denominator == 1


def _keeps_whole(node: Expr) -> bool:
    """Whether a value is whole if what it is made of is, or a float by what else it is made of."""
    if node.op == "floated":
        return False
    if node.op in TENSOR_OPS or node.op in _CHOSEN or _has_float(node):
        return True
    numbers = [a for a in node.args if a.is_static]
    if node.op == "pow" and _is_negative(numbers):
        return False
    return node.op in {"sym", "pow", *WHOLE} and all(map(is_whole, numbers))


def _is_negative(numbers: list[Expr]) -> bool:
    return any((n.number or 0) < 0 for n in numbers)


def is_whole(number: Expr) -> bool:
    """Whether a number that no tensor is part of is a Python int, or no bound at all."""
    if number in (OO, -OO):
        return True
    leaves = [n for n in topological(number) if not n.args]
    whole = all(n["kind"] in ("int", "bool") if n.op == "sym" else n.number is not None for n in leaves)
    return whole and all(n.number is None or n.number.denominator == 1 for n in topological(number))


def _is_total(operands: Operands) -> bool:
    return len(operands) == 1 and all(isinstance(o, Total) for o in operands)


def printed(operands: Operands, names: Mapping[Expr, str | Code], groups: Iterable[frozenset[Expr]] = ()) -> Code:
    """The dtype as code, where floats are made of the tensors of some groups."""
    alone = _alone(operands)
    made = [code("rt.floated({0})", in_order(_named(t, names) for t in group)) for group in groups]
    if len(alone) == 2 and not made:
        first, second = in_order(_named(t, names) for t in alone)
        return code("torch.promote_types({0}.dtype, {1}.dtype)", first, second)
    return code("rt.result_dtype({0})", [*in_order(_operand(o, names) for o in operands), *made])


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


def _operand(operand: Expr | Total | Floated, names: Mapping[Expr, str | Code]) -> Code:
    if isinstance(operand, Floated) and operand.of.op != "sym":
        return code("torch.empty(())" if extent(operand.of) == SCALAR else "torch.empty(1)")
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
