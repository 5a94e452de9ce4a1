"""The fused passes of an operation: what each reads and writes, and what it computes for one element."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from symgrad import expr as ex
from symgrad.backends.fused.elements import ELEMENTS, ROW, ROW_OPS, Elements, Unsupported, Value, View
from symgrad.backends.fused.forms import rational_forms, with_reciprocals, with_row_values
from symgrad.backends.torch.layout import Layout
from symgrad.expr import Expr, symbol, topological
from symgrad.machine import machine
from symgrad.operation import Variant, cotangent
from symgrad.shapes import extent, shape_sources

CanSpell = Callable[[Expr], bool]  # whether a language has the operation of a machine node

_MOST_SPECIAL = 2  # results up to which a pass is compiled for every choice of them


@dataclass(frozen=True)
class Operand:
    """A tensor that a pass reads: the leaf that stands for it, its place among those given, and its view."""

    leaf: Expr
    place: int
    dims: tuple[int, ...]


@dataclass(frozen=True)
class Result:
    """What a pass writes: `value` for each element, in the shape of the pass; or summed.

    It is summed to the shape of the tensor at `place` among the inputs, viewed by `dims`; over everything if `total`
    ("sum" or "mean"). `row`: it has one element for each row, and the last dimension is gone ("row") or 1 ("kept").
    """

    name: str
    value: Expr
    place: int | None = None
    dims: tuple[int, ...] = ()
    total: str = ""
    row: str = ""


@dataclass(frozen=True)
class Kernel:
    """One pass. `shape` are the operands that broadcast to its shape; `numbers` the hyperparameters it reads.

    `wide`: it computes in float64 whatever the tensors hold. `by_row`: it has reductions along the last dimension.
    """

    name: str
    operands: tuple[Operand, ...]
    numbers: tuple[Expr, ...]
    results: tuple[Result, ...]
    shape: tuple[tuple[int, tuple[int, ...]], ...]
    wide: bool
    by_row: bool

    @property
    def subsets(self) -> tuple[int, ...]:
        """The choices of results, as bits, that it is compiled for: every one, or with many results single ones."""
        count = len(self.results)
        if self.name.startswith("forward"):
            return ((1 << count) - 1,)
        if count <= _MOST_SPECIAL:
            return tuple(range(1, 1 << count))
        return (*(1 << k for k in range(count)), (1 << count) - 1)


@dataclass(frozen=True)
class Kernels:
    """The passes of one variant; why there is none where one is missing."""

    forward: Kernel | None
    backward: Kernel | None
    missing: tuple[tuple[str, str], ...] = ()


def kernels(layout: Layout, variant: Variant, suffix: str, can_spell: CanSpell) -> Kernels:
    """The passes of a variant, with `suffix` in their names, as far as a language can spell them."""
    missing: list[tuple[str, str]] = []
    found: list[Kernel | None] = []
    shape: tuple[tuple[int, tuple[int, ...]], ...] = ()
    for name, build in (("forward", _forward), ("backward", _backward)):
        try:
            if missing:
                raise Unsupported("forward has none")
            kernel = build(layout, variant, f"{name}{suffix}", shape, can_spell)
            shape = kernel.shape
            found.append(kernel)
        except Unsupported as error:
            missing.append((name, str(error)))
            found.append(None)
    return Kernels(found[0], found[1], tuple(missing))


def _forward(layout: Layout, variant: Variant, name: str, _: object, can_spell: CanSpell) -> Kernel:
    elements = Elements({}, _rank(variant))
    tensors = [layout.symbol(t.name) for t in layout.spec.tensors]
    results, shapes = [], []
    for output, form in variant.outputs.items():
        value = elements(form)
        if value.dims is not None:
            raise Unsupported("a reduction that is not along the last dimension")
        row = "row" if value.dropped else "kept" if not value.total and _belongs_to_row(value.expr) else ""
        results.append(Result(output, value.expr, total=value.total, row=row))
        formula = elements(variant.formulas[output])
        leaves = {s for v in (value, formula) for s in v.expr.symbols if s.tensors}
        if not row:
            leaves |= {elements.leaf(s) for s in shape_sources(variant.formulas[output]) if s in tensors}
        shapes.append(frozenset(leaves))
    if len(set(shapes)) > 1:
        raise Unsupported("outputs of different shapes")
    operands = _operands(elements, shapes[0], tensors)
    if not operands:
        raise Unsupported("a formula without tensors")
    return _kernel(
        layout, name, operands, results, tuple((o.place, o.dims) for o in operands), variant.wide_values, can_spell
    )


def _rank(variant: Variant) -> int | None:
    """How many dimensions a pass has, where that is known."""
    found = {
        extent(n.args[0] if n.op in ("sum", "mean") and n["dim"] is None else n) for n in variant.formulas.values()
    }
    known = {len(e.dims) for e in found if e.exact}
    return known.pop() if len(known) == 1 and all(e.exact for e in found) else None


def _belongs_to_row(value: Expr) -> bool:
    """Whether a value is made of reductions along the row alone."""
    nodes = topological(value, leaves=[n for n in topological(value) if n.op in ROW_OPS])
    return any(n.op in ROW_OPS for n in nodes) and not any(n.op == "sym" and n.tensors for n in nodes)


def _backward(
    layout: Layout, variant: Variant, name: str, shape: tuple[tuple[int, tuple[int, ...]], ...], can_spell: CanSpell
) -> Kernel:
    spec = layout.spec
    known = {form: symbol(o, "tensor") for o, form in variant.outputs.items() if form.op != "sym"}
    saved = [known.get(s.value, s.value) for s in variant.plan.base]
    if any(s.op != "sym" for s in saved):
        raise Unsupported("a mask that is saved")
    known = {form: s for form, s in known.items() if s in saved}
    given = [*saved, *(cotangent(o.name) for o in spec.outputs if o.grad)]
    elements = Elements(known, _rank(variant))
    results = []
    for k, tensor in enumerate(spec.tensors):
        gradients = _gradients(variant, tensor.name)
        if gradients:
            results.append(_gradient(elements, f"grad_{tensor.name}", k, layout.symbol(tensor.name), gradients))
    if not results:
        raise Unsupported("no gradient")
    operands = _operands(elements, frozenset(s for r in results for s in r.value.symbols if s.tensors), given)
    if not operands:
        raise Unsupported("no gradient")
    return _kernel(layout, name, operands, results, shape, variant.wide_slopes, can_spell)


def _gradients(variant: Variant, tensor: str) -> list[Expr]:
    plain = {cotangent(o, formula): cotangent(o) for o, formula in variant.formulas.items()}
    return [ex.substitute(g, plain) for g in variant.gradients_of(tensor) if g is not ex.ZERO]


def _gradient(elements: Elements, name: str, place: int, own: Expr, gradients: Sequence[Expr]) -> Result:
    values = [elements(g) for g in gradients]
    dims = {v.dims or () for v in values}
    if len(dims) > 1 or any(v.total or v.dropped for v in values):
        raise Unsupported("sums over different dimensions")
    view = View(own)
    if dims != {()}:
        view = elements.views[elements._lifted_leaf(elements.leaf(own), dims.pop())]
    value = ex.add(*(v.expr for v in values))
    if extent(own).dims[-1:] == (1,) and any(n.op in ROW_OPS for n in topological(value)):
        value = _under_row_sum(value)
    return Result(name, value, place, view.dims)


def _under_row_sum(value: Expr) -> Expr:
    """What is summed along the row to the gradient of a tensor with one element for each row."""
    if value.op == "row_sum":
        return value.args[0]
    if value.op == "add":
        return ex.add(*map(_under_row_sum, value.args))
    summed = [f for f in value.args if any(n.op in ROW_OPS for n in topological(f))]
    if value.op != "mul" or len(summed) != 1:
        raise Unsupported("a gradient of what belongs to a row")
    return ex.mul(_under_row_sum(summed[0]), *(f for f in value.args if f is not summed[0]))


def _operands(elements: Elements, leaves: Iterable[Expr], given: Sequence[Expr]) -> tuple[Operand, ...]:
    """The operands behind the leaves, in the order in which their tensors are given."""
    found = []
    for leaf in leaves:
        view = elements.views[leaf]
        if view.tensor["kind"] == "int_tensor":
            raise Unsupported("a tensor of integers")
        found.append(Operand(leaf, given.index(view.tensor), view.dims))
    return tuple(sorted(found, key=lambda o: (o.place, o.dims)))


def _kernel(
    layout: Layout,
    name: str,
    operands: tuple[Operand, ...],
    results: Sequence[Result],
    shape: tuple[tuple[int, tuple[int, ...]], ...],
    wide: bool,
    can_spell: CanSpell,
) -> Kernel:
    forms = with_row_values(with_reciprocals(rational_forms([r.value for r in results], wide=wide)))
    results = [replace(r, value=form) for r, form in zip(results, forms, strict=True)]
    lowered = machine(forms)
    order = topological(*lowered)
    for node in order:
        if not can_spell(node):
            raise Unsupported(node.op)
    scalars = [layout.symbol(h.name) for h in layout.spec.hyperparameters]
    read = frozenset().union(*(r.value.symbols for r in results)) | frozenset(s for n in lowered for s in n.symbols)
    if any(s["kind"] == "str" for s in read):
        raise Unsupported("a text")
    numbers = tuple(s for s in (*scalars, ELEMENTS, ROW) if s in read)
    by_row = any(n.op in ROW_OPS for n in order) or any(r.row for r in results)
    if by_row and any(r.total for r in results):
        raise Unsupported("a reduction of a reduction")
    return Kernel(name, operands, numbers, tuple(results), shape, wide, by_row)


__all__ = ["Kernel", "Kernels", "Operand", "Result", "Value", "kernels"]
