"""The fused passes of an operation: what each reads and writes, and what it computes for one element."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TypeVar

from symgrad.accuracy.machine import machine
from symgrad.compiler.operation import Variant
from symgrad.differentiate.symbols import cotangent, tangent
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, symbol
from symgrad.ir.traversal import substitute, topological
from symgrad.ops.tensors.shapes import declared_shape, extent, shape_sources
from symgrad.targets.fused import rows
from symgrad.targets.fused.alike import are_alike, has_pass_shape
from symgrad.targets.fused.assembly import Assembly, CanSpell
from symgrad.targets.fused.elements import Elements
from symgrad.targets.fused.model import Kernel, Kernels, Operand, Part, Result, Second
from symgrad.targets.fused.pairs import parts_of
from symgrad.targets.fused.parts import Parts
from symgrad.targets.fused.results import gradient_of, like_output, output_of, tangent_of
from symgrad.targets.fused.terms import (
    Unsupported,
    Value,
    is_count,
    is_total,
    operands_of,
)
from symgrad.targets.fused.totals import finished, late_of, pass_shape, require_known, with_finish
from symgrad.targets.torch.layout import Layout

__all__ = ["CanSpell", "Kernel", "Kernels", "Operand", "Result", "Second", "Value", "kernels"]

_MOST_CHOICES = 2  # tensors up to which every choice of defined tangents or cotangents has a pass

T = TypeVar("T")


def kernels(layout: Layout, variant: Variant, suffix: str, can_spell: CanSpell) -> Kernels:
    """The passes of a variant, with `suffix` in their names, as far as a language can spell them.

    Where sums over everything ask for the shapes of tensors that declare none, passes are over tensors of one shape.
    """
    passes = _Passes(layout, variant.for_passes, suffix, can_spell)
    found = passes.kernels()
    if found.backward is None and passes.loose:
        others = replace(passes, one_shape=True).kernels()
        return found if others.backward is None else others
    return found


@dataclass(frozen=True)
class _Passes:
    """Builds the passes of one variant."""

    layout: Layout
    variant: Variant
    suffix: str
    can_spell: CanSpell
    one_shape: bool = False

    def kernels(self) -> Kernels:
        missing: list[tuple[str, str]] = []

        def attempt(name: str, build: Callable[[], T]) -> T | None:
            try:
                return build()
            except Unsupported as error:
                missing.append((name, str(error)))
                return None

        forward = attempt("forward", self.forward)
        if forward is None:
            return Kernels(None, None, (*missing, ("backward", dict(missing)["forward"])))
        backward = attempt("backward", lambda: self.backward(forward))
        tangents = attempt("forward mode", lambda: self.tangents(forward))
        if backward is None:
            missing.append(("second derivatives", dict(missing)["backward"]))
        second = attempt("second derivatives", lambda: self.second(forward)) if backward is not None else None
        return Kernels(*self.kept(forward, backward), tuple(missing), tangents or {}, second or {})

    # ------------------------------------------------------------------------------------------ forward
    def forward(self) -> Kernel:
        variant, layout, parts = self.variant, self.layout, self.parts
        pieces = [piece for output in variant.outputs for piece in self.pieces(output)]
        formulas = [piece.formula for piece in pieces]
        elements = Elements({}, parts.rank, shape=pass_shape(formulas), one_shape=self.one_shape, single=self.single)
        tensors = [layout.symbol(t.name) for t in layout.spec.tensors]
        results, values, shapes = list[Result](), list[Value](), []
        for piece in pieces:
            form, formula = piece.form, piece.formula
            value = elements(form)
            if form.is_boolean or value.expr.is_boolean:
                raise Unsupported("an output of truth values")
            results.append(_in_part(output_of(piece.output, value), piece.part))
            values.append(value)
            size = extent(form).dims[-1:]
            if results[-1].row == "kept" and (size not in ((), (1,)) or form.op == "expand"):
                results[-1] = replace(results[-1], row="")  # a tensor that cancels has an element for each
            if not (results[-1].row or has_pass_shape(elements, formula)):
                raise Unsupported("a reduction that is broadcast to a shape of its own")
            summed = [v.expr for v in elements.totals.values()]
            leaves = {s for v in (value.expr, elements(formula).expr, *summed) for s in operands_of(v)} | elements.lent
            if not results[-1].row:
                sources = shape_sources(formula)
                leaves |= {elements.leaf(s) for s in sources if s in tensors or s in parts.origin}
            shapes.append(frozenset(leaves))
        views = [{elements.views[leaf] for leaf in own} for own in shapes]
        alike = {frozenset((parts.of_whole(view.tensor), view.dims) for view in own) for own in views}
        late = late_of(elements, values)
        if len(alike) > 1 and not are_alike(formulas, results, values, late, one_shape=self.one_shape):
            raise Unsupported("outputs of different shapes")
        operands = self.operands(elements, frozenset().union(*shapes), tensors)
        if not operands:
            raise Unsupported("a formula without tensors")
        shape = tuple(elements.views[o.leaf] for o in operands)
        computed, finish = finished(list(zip(results, values, strict=True)), elements)
        if finish and parts.grid:
            raise Unsupported("what follows from sums over parts")
        found = self.assembled(f"forward{self.suffix}", elements, operands, computed, shape, variant.wide_values)
        return with_finish(found, finish, results, operands)

    @cached_property
    def assembled(self) -> Assembly:
        """What makes a pass of what it writes."""
        return Assembly(self.layout, self.can_spell, self.parts.grid, self.loose if self.one_shape else ())

    @cached_property
    def parts(self) -> Parts:
        """The parts of a dimension that formulas divide."""
        found = parts_of([*self.variant.formulas.values()], _rank(self.variant))
        symbols = {t.name: self.layout.symbol(t.name) for t in self.layout.spec.tensors}
        tensors = {t: found.length(s) for t, s in symbols.items()}
        found.lengths |= {name: n for t, n in tensors.items() for name in (t, f"tangent_{t}", f"grad_grad_{t}")}
        outputs = {o: len(found(formula)) for o, formula in self.variant.formulas.items()}
        found.lengths |= {name: n for o, n in outputs.items() for name in (o, f"grad_{o}")}
        return found

    @property
    def single(self) -> bool:
        """Whether a pass is over single elements of the last dimension."""
        return self.parts.grid is not None and self.parts.grid.single

    def pieces(self, output: str) -> list[_Piece]:
        """The parts of an output: as forward computes them, and their formulas."""
        count = self.parts.lengths[output]
        found = self.parts.of([self.variant.outputs[output], self.variant.formulas[output]], count)
        return [_Piece(output, form, formula, self.part(k, count)) for k, (form, formula) in enumerate(found)]

    def part(self, index: int, count: int) -> Part | None:
        """A part of what is so many parts long."""
        return self.parts.grid.part(index, count) if self.parts.grid and count > 1 else None

    def terms(self, name: str, terms: Sequence[Expr]) -> list[tuple[list[Expr], Part | None]]:
        """The terms of each part of what has a name."""
        count = self.parts.lengths.get(name, 1)
        found = self.derivative_parts.of(terms, count)
        return [([self.plain(t) for t in own], self.part(k, count)) for k, own in enumerate(found)]

    @cached_property
    def derivative_parts(self) -> Parts:
        """The same where formulas are made of what is saved."""
        saved = {v: s for v, s in self.saved().items() if v is not s}
        return self.parts.again(saved)

    def operands(self, elements: Elements, leaves: Iterable[Expr], given: Sequence[Expr]) -> tuple[Operand, ...]:
        """The operands behind the leaves, in the order in which their tensors are given."""
        found = []
        for leaf in leaves:
            view = elements.views[leaf]
            tensor, part = self.parts.origin.get(view.tensor, (view.tensor, None))
            place = given.index(tensor if part is None else self.plain(tensor))
            found.append(Operand(leaf, place, view.dims, part))
        ordered = sorted(found, key=lambda o: (o.place, o.dims, o.part.index if o.part else 0))
        pairs = [(o.place, o.dims) for o in ordered if o.part and o.part.pairs]
        if pairs[::2] != pairs[1::2]:
            raise Unsupported("one of each pair alone")
        return tuple(ordered)

    # ------------------------------------------------------------------------------------------ derivatives
    def saved(self) -> dict[Expr, Expr]:
        """What backward finds saved, and the tensor that each value is read from."""
        outputs = {form: symbol(o, "tensor") for o, form in self.variant.outputs.items() if form.op != "sym"}
        saved = {s.value: outputs.get(s.value, s.value) for s in self.variant.plan.base}
        if any(s.op != "sym" for s in saved.values()):
            raise Unsupported("a mask that is saved")
        return saved

    def elements(self, forward: Kernel) -> Elements:
        """Lowers formulas of derivatives, in which outputs and their cotangents have the shapes that forward gives."""
        rows = [r.name for r in forward.returned if r.row == "row" and not r.total]
        of_rows = frozenset(s for name in rows for s in (symbol(name, "tensor"), cotangent(name)))
        shape = pass_shape([piece for f in self.variant.formulas.values() for piece in self.parts(f)])
        known = {v: s for v, s in self.saved().items() if v is not s}
        primals = {tangent(t.name): self.layout.symbol(t.name) for t in self.layout.spec.tensors}
        primals |= {cotangent(o): formula for o, formula in self.variant.formulas.items()}
        ways = {"one_shape": self.one_shape, "single": self.single}
        return Elements(known, self.parts.rank, of_rows, shape, primals, **ways)

    @cached_property
    def loose(self) -> tuple[int, ...]:
        """The places of the tensors whose first dimensions are not declared; none where their last ones differ."""
        known = [extent(self.layout.symbol(t.name)) for t in self.layout.spec.tensors]
        found = tuple(k for k, own in enumerate(known) if not own.exact)
        return found if len({known[k].dims for k in found}) == 1 else ()

    def differentiated(self, results: Sequence[Result]) -> list[Result]:
        """Those of the outputs that have derivatives."""
        return [r for r, o in zip(results, self.layout.spec.outputs, strict=True) if o.grad]

    def cotangents(self) -> list[Expr]:
        return [cotangent(o.name) for o in self.layout.spec.outputs if o.grad]

    def backward(self, forward: Kernel) -> Kernel:
        saved = self.saved()
        elements = self.elements(forward)
        results = []
        for k, tensor in enumerate(self.layout.spec.tensors):
            gradients = [g for g in self.variant.gradients_of(tensor.name) if g is not ex.ZERO]
            if gradients:
                results += self.gradient(elements, f"grad_{tensor.name}", k, gradients)
        given = [*saved.values(), *self.cotangents()]
        name, wide = f"backward{self.suffix}", self.variant.wide_slopes
        return self.derivative(name, elements, given, results, forward, wide, forward.sums)

    def gradient(self, elements: Elements, name: str, place: int, terms: Sequence[Expr]) -> list[Result]:
        """The gradient of the tensor at a place, part by part."""
        own = self.layout.symbol(self.layout.spec.tensors[place].name)
        pieces = self.terms(own.name, terms)
        found = (
            replace(gradient_of(elements, name, place, symbol, given), part=part)
            for symbol, (given, part) in zip(self.parts.symbols(own), pieces, strict=True)
        )
        return list(found)

    def kept(self, forward: Kernel, backward: Kernel | None) -> tuple[Kernel, Kernel | None]:
        """Both passes, with the reductions of rows that one keeps where that spares the other a pass over the row.

        Before them stand the sums over everything that backward reads.
        """
        if backward is None or forward.wide or backward.wide:
            return forward, backward
        sums = tuple(s for s in forward.sums if any(s in r.value.symbols for r in backward.results))
        reductions = rows.kept(*(machine([r.value for r in k.results]) for k in (forward, backward)))
        given = len(self.saved()) + len(self.cotangents())
        known = tuple(Operand(n, place, ()) for place, n in enumerate((*sums, *reductions), given))
        return replace(forward, keeps=reductions, given=sums), replace(backward, known=known)

    def tangents(self, forward: Kernel) -> dict[int, Kernel]:
        """The passes of forward mode, by the bits of the tangents that are defined."""
        if self.variant.overrides or not self.layout.spec.options.double_backward:
            raise Unsupported("a gradient of its own")
        saved = self.saved()
        found = {}
        for bits, tensors in self.choices({t for _, t in self.variant.tangents}):
            elements = self.elements(forward)
            moved = []
            for output in self.differentiated(forward.returned):
                terms = [t for (o, x), t in self.variant.tangents.items() if o == output.name and x in tensors]
                name = f"tangent_{output.name}"
                for own, part in self.terms(output.name, terms):
                    result, value = tangent_of(elements, output, name, own)
                    moved.append((_in_part(result, part), value))
            results, finish = finished(moved, elements)
            given = [*saved.values(), *map(tangent, tensors)]
            name, wide = f"jvp{self.suffix}_{bits}", self.variant.wide_slopes
            kernel = self.derivative(name, elements, given, results, forward, wide)
            late = {leaf for form in finish for leaf in operands_of(form) if leaf in elements.views}
            read = self.operands(elements, late, given)
            found[bits] = with_finish(kernel, finish, [r for r, _ in moved], read)
        return dict(zip(found, _with_equal_numbers(list(found.values())), strict=True))

    def second(self, forward: Kernel) -> dict[int, Second]:
        """The passes of second derivatives, by the bits of the cotangents of gradients that are defined."""
        pulled, saved = self.variant.second.pulled, self.saved()
        if self.variant.second.missing:
            raise Unsupported(self.variant.second.missing)
        places = {leaf: k for k, leaf in enumerate([*saved.values(), *self.cotangents()])}
        inputs = {self.layout.symbol(t.name): k for k, t in enumerate(self.layout.spec.tensors)}
        outputs = {name: r for r in forward.returned for name in (r.name, f"grad_{r.name}")}
        found = {}
        for bits, tensors in self.choices({t for t, _ in pulled}):
            elements = self.elements(forward)
            results, written = [], []
            for leaf, place in places.items():
                terms = [g for (t, x), g in pulled.items() if t in tensors and _same(x, leaf)]
                if not terms:
                    continue
                name = f"grad_{leaf.name}"
                if leaf in inputs:
                    results += self.gradient(elements, name, inputs[leaf], terms)
                else:
                    symbols = self.parts.symbols(leaf)
                    for own, (given, part) in zip(symbols, self.terms(leaf.name, terms), strict=True):
                        result = like_output(elements, outputs[leaf.name], name, given, own)
                        results.append(_in_part(result, part))
                written.append(place)
            given = [*places, *(cotangent(f"grad_{t}", self.layout.symbol(t)) for t in tensors)]
            name = f"second{self.suffix}_{bits}"
            kernel = self.derivative(name, elements, given, results, forward, self.variant.second.wide)
            found[bits] = Second(kernel, tuple(written))
        same = _with_equal_numbers([s.kernel for s in found.values()])
        return {bits: Second(kernel, s.places) for (bits, s), kernel in zip(found.items(), same, strict=True)}

    def choices(self, present: set[str]) -> list[tuple[int, list[str]]]:
        """The choices of tensors, with their bits, that have passes: each, all, and of a few tensors every one."""
        own = {t.name: 1 << k for k, t in enumerate(self.layout.spec.tensors) if t.name in present}
        sizes = range(1, len(own) + 1) if len(own) <= _MOST_CHOICES else (1, len(own))
        return [(sum(own[t] for t in chosen), list(chosen)) for n in sizes for chosen in combinations(own, n)]

    def plain(self, gradient: Expr) -> Expr:
        """A gradient in terms of what a pass is given: cotangents and outputs without shapes."""
        shaped = {cotangent(o, formula): cotangent(o) for o, formula in self.variant.formulas.items()}
        shaped |= {symbol(o, "tensor", declared_shape(f)): symbol(o, "tensor") for o, f in self.variant.outputs.items()}
        return substitute(gradient, shaped)

    def derivative(
        self,
        name: str,
        elements: Elements,
        given: Sequence[Expr],
        results: Sequence[Result],
        forward: Kernel,
        wide: bool,
        given_sums: Sequence[Expr] = (),
    ) -> Kernel:
        own = [r.leaf for r in results if r.leaf is not None]
        require_known([r.value for r in results], [*given_sums, *own])
        operands = self.operands(elements, frozenset(s for r in results for s in operands_of(r.value)), given)
        if not results or not operands:
            raise Unsupported("no gradient")
        found = self.assembled(name, elements, operands, results, forward.shape, wide)
        if found.wide and any(is_total(s) for r in results for s in r.value.symbols):
            raise Unsupported("a total in float64")
        return found


def _rank(variant: Variant) -> int | None:
    """How many dimensions a pass has, where that is known: as many as any value before it is reduced."""
    values = [n for n in topological(*variant.formulas.values()) if not n.is_static]
    known = [extent(n) for n in values]
    return max(len(e.dims) for e in known) if known and all(e.exact for e in known) else None


def _with_equal_numbers(passes: Sequence[Kernel]) -> list[Kernel]:
    """Passes that all take the hyperparameters that any of them reads, and so can be called alike."""
    read = sorted({n for k in passes for n in k.numbers if not is_count(n)}, key=lambda n: n.name)
    return [replace(k, numbers=(*read, *filter(is_count, k.numbers))) for k in passes]


def _same(leaf: Expr, other: Expr) -> bool:
    """Whether two symbols are of one value, of which one may tell its shape."""
    return leaf.name == other.name and leaf["kind"] == other["kind"]


@dataclass(frozen=True)
class _Piece:
    """A part of an output, or all of it: the form that forward computes, and the formula."""

    output: str
    form: Expr
    formula: Expr
    part: Part | None


def _in_part(result: Result, part: Part | None) -> Result:
    """A result as a part of an output."""
    if part is not None and (result.row or result.total or result.reduced):
        raise Unsupported("a reduction in parts")
    return replace(result, part=part)
