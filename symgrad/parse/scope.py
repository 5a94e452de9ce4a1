"""What the names in a formula stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from symgrad.ir.expr import Expr, make
from symgrad.ops.tensors.extent import Dim
from symgrad.ops.tensors.shapes import ShapeConflict, extent, same_shape, shape_sources
from symgrad.parse.alignment import aligned, side_by_side

__all__ = ["Bound", "Scope", "each_field", "sources_of", "with_shape"]


@dataclass(frozen=True)
class Bound:
    """What a name stands for.

    ``expr`` is None where that is not known because its own formula is wrong, and where it is not one value but
    several with names of their own (``fields``). ``sources`` are all values whose shapes the formula broadcasts.
    ``widened`` is a value that a cast made of another dtype, which what reads it casts back.
    """

    expr: Expr | None = None
    sources: frozenset[Expr] = frozenset()
    fields: Mapping[str, Bound] | None = None
    widened: bool = False


@dataclass
class Scope:
    """The names that a formula may use.

    ``choices`` lists the values of those ``str`` hyperparameters that have few; ``elsewhere`` says why a name that
    the spec does know cannot be used in this formula; ``settled`` are values that have been checked. ``outputs`` are
    those of the operation that a given gradient may apply again, and ``arguments`` what they are computed of. A slice
    at a share of a dimension, such as `x[:, :D // 2]`, divides it into equal parts where it is one of ``equal_parts``,
    of which None are all; else its bound is rounded down, as in Python. With ``may_widen`` a cast need not be cast
    back, as of an intermediate; ``by_position`` shapes meet from the right alone, and not by the names of dimensions.
    ``lenders`` are the tensors that are surely given, on whose device others are made.
    """

    names: dict[str, Bound] = field(default_factory=dict)
    choices: Mapping[Expr, tuple[str, ...]] = field(default_factory=dict)
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    settled: set[Expr] = field(default_factory=set)
    outputs: tuple[str, ...] = ()
    arguments: tuple[Expr, ...] = ()
    equal_parts: frozenset[Dim] | None = frozenset()
    may_widen: bool = False
    by_position: bool = False
    lenders: tuple[Expr, ...] = ()

    @classmethod
    def of(cls, symbols: Iterable[Expr]) -> Scope:
        """A scope of nothing but symbols."""
        symbols = tuple(symbols)
        tensors = tuple(symbol for symbol in symbols if symbol.tensors)
        return cls({symbol.name: Bound(symbol, sources_of(symbol)) for symbol in symbols}, lenders=tensors)


def each_field(name: str, fields: Iterable[str]) -> str:
    """How each of the results of a name is written, for messages: ``m.values or m.indices``, ``c[0] or c[1]``."""
    return " or ".join(f"{name}[{field}]" if field.isdigit() else f"{name}.{field}" for field in fields)


def sources_of(symbol: Expr) -> frozenset[Expr]:
    """What a symbol adds to the shape of a formula."""
    return frozenset({symbol}) if symbol.tensors else frozenset()


def with_shape(expr: Expr, sources: Iterable[Expr]) -> Expr:
    """``expr`` with the broadcast shape of ``sources``, some of which may have cancelled out of it."""
    sources = frozenset(sources)
    kept = shape_sources(expr) | {s for s in expr.symbols if not shape_sources(s)}
    placed = {k for k in kept if k.op == "unsqueeze" and k not in sources}  # by names, not by who wrote x[:, None]
    kept |= {s for k in placed for s in shape_sources(k.args[0])}
    lost = [s for s in sources if not (_shape_of(s) <= kept or _adds_nothing(s, expr))]
    if not lost:
        return expr
    like = expr
    for source in sorted(lost, key=lambda source: source.order):
        like = like + source
    whole = aligned(like)
    return make("expand", side_by_side(expr, whole)[0], whole)


def _adds_nothing(source: Expr, expr: Expr) -> bool:
    """Whether a source broadcasts to the shape of a value, as it is or aligned by the names of its dimensions."""
    try:
        return same_shape(shape_sources(expr) | _shape_of(source), expr)
    except ShapeConflict:
        return extent(aligned(expr + source)) == extent(expr)


def _shape_of(source: Expr) -> frozenset[Expr]:
    """What a source adds to a shape: the symbol of a gradient, which has a shape of its own, too."""
    return shape_sources(source) or frozenset({source} if source.op == "sym" else ())
