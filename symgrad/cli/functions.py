"""What `symgrad functions` tells: every function and tensor operation of the tables, as it is known there."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from symgrad.accuracy.evaluate import exact
from symgrad.accuracy.machine import machine
from symgrad.errors import SymgradError, suggestion
from symgrad.ir.expr import Expr, num, symbol
from symgrad.ir.traversal import topological
from symgrad.ops.functions import FUNCTIONS, Function, call, kinks
from symgrad.ops.tensors import ROWS, TENSOR_OPS, TensorOp
from symgrad.parse.advice import instead_of
from symgrad.parse.composites import COMPOSITES
from symgrad.parse.formula import formula
from symgrad.parse.special import SPECIAL
from symgrad.targets.cpp.spellings import can_spell as in_cpp
from symgrad.targets.triton.spellings import can_spell as in_triton

__all__ = ["Entry", "entries", "markdown", "named"]

_WIDEST = 240  # characters of a formula in a table; longer ones are shown by themselves
_KINKED = frozenset(row.name for row in kinks.ROWS)


@dataclass(frozen=True)
class Entry:
    """One function or tensor operation, in words. Texts are empty where there is nothing to say.

    In the signature, what stands in brackets may be left out; texts that do not name it are of the function without it.

    ``means`` holds equations that define it, several where it is defined for several orders; ``derivative`` one for
    each argument; ``kink`` what these are where all arguments are 0; ``kernels`` is told of functions alone, for an
    operation on whole tensors depends on what it is of.
    """

    name: str
    signature: str
    aliases: tuple[str, ...] = ()
    means: tuple[str, ...] = ()
    derivative: tuple[str, ...] = ()
    domain: str = ""
    kink: str = ""
    kernels: str = ""

    def lines(self) -> Iterator[str]:
        """The entry as lines, the first of which is its signature."""
        yield self.signature
        yield from (f"  also {', '.join(self.aliases)}" for _ in self.aliases[:1])
        yield from (f"  {line}" for line in (*self.means, *self.derivative))
        yield from (f"  where all arguments are 0: {self.kink}" for _ in self.kink[:1])
        yield from (f"  for {self.domain}" for _ in self.domain[:1])
        if self.name in FUNCTIONS:
            yield f"  kernels: {self.kernels or 'none: C++ has no spelling of it'}"


@cache
def entries() -> tuple[Entry, ...]:
    """All that specs may call: functions, then operations on whole tensors, by name."""
    functions = [_function(row) for name, row in sorted(FUNCTIONS.items()) if not row.internal]
    tensors = [*map(_tensor_op, ROWS), *(_composite(*row) for row in COMPOSITES.items())]
    return (*functions, *sorted(tensors, key=lambda entry: entry.name))


def _composite(signature: str, formula: str | tuple[str, ...]) -> Entry:
    """A function of torch that is a formula of the language."""
    name = signature.partition("(")[0]
    formulas = (formula,) if isinstance(formula, str) else formula
    return Entry(name, signature, means=tuple(f"= {text}" for text in formulas))


def named(name: str) -> list[Entry]:
    """The entries that have this name, or this alias: `max` is two. Raises SymgradError where there is none."""
    all_ = entries()
    found = [e for e in all_ if name == e.name] or [e for e in all_ if name in e.aliases]
    if not found and name in SPECIAL:
        raise SymgradError(f"{name!r} is a form of the language, which is no row of the tables: see its reference")
    if not found:
        near = instead_of(name) or suggestion(name, [spelling for e in all_ for spelling in (e.name, *e.aliases)])
        raise SymgradError(f"there is no function {name!r}{near or '; `symgrad functions` lists them all'}")
    return found


def markdown() -> str:
    """All entries as a page of Markdown: two tables."""
    functions = [e for e in entries() if e.name in FUNCTIONS]
    tensors = [e for e in entries() if e.name not in FUNCTIONS]
    lines = ["| function | also | derivative | domain | kernels |", "| --- | --- | --- | --- | --- |"]
    for found in functions:
        # One that holds for all arguments needs no left side beside the signature.
        own = re.sub(r"\[.*]", "", found.signature)
        meaning = (*(line.removeprefix(f"{own} ") for line in found.means), *found.derivative)
        at_kink = f"; where all arguments are 0: {found.kink}" if found.kink else ""
        whole = max(map(len, meaning), default=0) <= _WIDEST
        told = "<br>".join(f"`{_cell(line)}`" for line in meaning) if whole else f"`symgrad functions {found.name}`"
        told += at_kink
        cells = (f"`{found.signature}`", _codes(found.aliases), told, found.domain, found.kernels or "none")
        lines.append(f"| {' | '.join(cells)} |".replace("  |", " |"))
    lines += ["", "| operation on tensors | also |", "| --- | --- |"]
    lines += [f"| `{found.signature}` | {_codes(found.aliases)} |" for found in tensors if not found.means]
    lines += ["", "| formula of torch | |", "| --- | --- |"]
    lines += [f"| `{found.signature}` | {_codes(found.means)} |" for found in tensors if found.means]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _codes(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _function(row: Function) -> Entry:
    optional = ", ".join(row.parameters[row.required :])
    signature = f"{row.name}({', '.join(row.parameters[: row.required])}{optional and f'[, {optional}]'})"
    if row.definition is not None and row.partials is None:
        return _defined(row, signature, row.definition)
    # What has no derivative because it need not be given (the slope of softplus) is left out.
    given = row.parameters[: row.required] if row.partials is None else inspect.signature(row.partials).parameters
    arguments = _arguments(row, len(given))
    partials = row.partials(*arguments) if row.partials is not None else ()
    told = list(zip(arguments, partials, strict=False))[row.orders :]
    derivative = tuple(f"d/d{a.name} = {formula(p)}" for a, p in told)
    low, high = row.domain
    inside = f"{arguments[-1].name} in ({_bound(low)}, {_bound(high)})"
    return Entry(
        row.name,
        signature,
        row.aliases,
        derivative=derivative,
        domain="" if row.domain == (-math.inf, math.inf) else inside,
        kink=_at_zero(arguments, partials) if row.name in _KINKED else "",
        kernels=_kernels(call(row.name, *arguments)),
    )


def _arguments(row: Function, count: int) -> tuple[Expr, ...]:
    """Symbols for the first arguments; an order is a number."""
    kinds = ["int"] * row.orders + ["tensor"] * count
    return tuple(map(symbol, row.parameters[:count], kinds))


def _defined(row: Function, signature: str, definition: Callable[..., Expr]) -> Entry:
    """A function that is made of others; where it is so for some orders only (besselj), what it is for these."""
    arguments = _arguments(row, row.required)
    try:
        cases = {f"{row.name}({', '.join(a.name for a in arguments)})": definition(*arguments)}
    except ValueError:
        rest = ", ".join(a.name for a in arguments[1:])
        cases = {f"{row.name}({n}, {rest})": definition(num(n), *arguments[1:]) for n in (0, 1)}
    means = tuple(f"{case} = {formula(meant)}" for case, meant in cases.items())
    return Entry(row.name, signature, row.aliases, means, kernels=_kernels(*cases.values()))


def _at_zero(arguments: tuple[Expr, ...], partials: tuple[Expr, ...]) -> str:
    """The conventions at a kink: the partial derivatives where all arguments are 0."""
    values = exact(partials, dict.fromkeys(arguments, 0), 53) if partials else []
    return ", ".join(f"d/d{a.name} = {float(v):g}" for a, v in zip(arguments, values, strict=False))


def _kernels(*values: Expr) -> str:
    """The languages in which passes can have all values."""
    nodes = topological(*machine(values))
    found = [name for name, has in (("C++", in_cpp), ("Triton", in_triton)) if all(map(has, nodes))]
    return ", ".join(found)


def _bound(value: float) -> str:
    return {math.inf: "oo", -math.inf: "-oo"}.get(value, f"{value:g}")


def _tensor_op(row: TensorOp) -> Entry:
    assert row.name in TENSOR_OPS
    if row.method:
        return Entry(row.name, f"x.{row.method}", row.aliases)
    told = {name: name for name in row.operands}
    told |= {a.name: a.name if a.required else f"{a.name}={a.default!r}" for a in row.attributes}
    names = [*row.order, *(name for name in told if name not in row.order)]
    if row.variadic:
        names.insert(len(row.operands), "...")
    fields = f" -> {', '.join('.' + name for name, _ in row.fields)}" if row.fields else ""
    return Entry(row.name, f"{row.name}({', '.join(told.get(name, name) for name in names)}){fields}", row.aliases)
