"""All formulas of a spec as expressions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from symgrad.analysis.integers import is_integer
from symgrad.analysis.places import places, shifts
from symgrad.differentiate.symbols import cotangent
from symgrad.errors import Mistake, SpecError
from symgrad.ir import expr as ex
from symgrad.ir.branches import ends, split
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.order import Orders
from symgrad.ir.traversal import topological
from symgrad.ops.tensors import TENSOR_OPS
from symgrad.ops.tensors.extent import Dim
from symgrad.ops.tensors.row import is_number
from symgrad.ops.tensors.shapes import extent, same_shape, shape_sources
from symgrad.ops.tensors.sizes import divided_by, is_rounded
from symgrad.parse.absence import whether_given
from symgrad.parse.alignment import ShapeConflict, side_by_side
from symgrad.parse.build import Builder
from symgrad.parse.comparisons import is_text
from symgrad.parse.faults import Fault, FormulaError
from symgrad.parse.fitting import Fitting
from symgrad.parse.regions import Divider, multiplies
from symgrad.parse.scope import Bound, Scope, each_field, sources_of, with_shape
from symgrad.parse.text import names_in, read
from symgrad.spec.model import Formula, Output, Spec, Tensor

__all__ = ["Program", "parse_expression", "parse_formulas"]

_LEAST_TESTED = 2  # of the sizes of a dimension in generated tests, beside 1
_MAX_MISTAKES = 100  # reported for one spec
_TENSOR_KINDS = {"float": "tensor", "int": "int_tensor", "bool": "bool_tensor"}


@dataclass(frozen=True)
class Program:
    """A spec whose formulas are expressions. All mappings are in the order of the file.

    Attributes:
        symbols: the tensors and hyperparameters.
        lets: the named intermediates, which the later formulas contain as they are. One that has several results
            is there as `name_values`, `name_indices`.
        outputs: the results. Each has the shape that its formula broadcasts to: by an `expand`, where a tensor
            cancels out of it.
        gradients: overrides by tensor, in terms of the symbols and of `cotangents`.
        cotangents: for each output that is differentiated, the symbol `grad_<output>`.
        calls: the functions that are called, by the names that the spec has for them, and where each is called first.
        orders: what is added up in which order.
    """

    spec: Spec
    symbols: Mapping[str, Expr]
    lets: Mapping[str, Expr]
    outputs: Mapping[str, Expr]
    gradients: Mapping[str, Expr]
    cotangents: Mapping[str, Expr]
    calls: Mapping[str, tuple[Formula, int]]
    orders: Orders = field(default_factory=dict)

    @property
    def given(self) -> list[Expr]:
        """The tensors that are never absent."""
        return [self.symbols[t.name] for t in self.spec.tensors if t.default is None]

    @property
    def fixed(self) -> frozenset[Expr]:
        """The tensors that are never differentiated."""
        return frozenset(self.symbols[t.name] for t in self.spec.tensors if not t.grad)

    @property
    def optional(self) -> dict[Expr, Expr]:
        """The tensors that may be absent, with the constants that stand for them: truth values for one of these."""
        return {self.symbols[t.name]: _constant(t) for t in self.spec.tensors if t.default is not None}

    @property
    def unread(self) -> list[str]:
        """The tensors, hyperparameters and intermediates that stand in no formula; a size reads its tensors."""
        spec = self.spec
        formulas = [*spec.let, *(output.formula for output in spec.outputs), *spec.gradients.values()]
        read = set[str]().union(*(names_in(formula.text) for formula in formulas))
        tensors = [t.name for t in spec.tensors if read.isdisjoint({t.name, *(t.shape or ())})]
        others = [*(h.name for h in spec.hyperparameters), *(formula.name for formula in spec.let)]
        return tensors + [name for name in others if name not in read]


def parse_expression(text: str, scope: Scope | Iterable[Expr]) -> Expr:
    """The expression that ``text`` writes, in terms of a scope or just of symbols.

    Raises FormulaError with everything that is wrong with it.
    """
    bound = Builder(read(text), scope if isinstance(scope, Scope) else Scope.of(scope)).result()
    if bound.expr is None:
        raise FormulaError([Fault(0, _several(bound))])
    return with_shape(bound.expr, bound.sources)


def parse_formulas(spec: Spec) -> Program:
    """The formulas of a spec. Raises SpecError with everything that is wrong with them.

    Slices at shares of a dimension are rounded as in Python, but are equal parts of it where parts of it meet that
    would be as long as each other for some sizes alone.
    """
    written = [*spec.let, *(output.formula for output in spec.outputs), *spec.gradients.values()]
    if not any("//" in formula.text for formula in written):
        return _program(spec)
    try:
        program = _program(spec)
        divided = _in_parts(program)
        return _program(spec, equal_parts=divided) if divided else program
    except (SpecError, ShapeConflict):
        return _program(spec, equal_parts=None)  # what is wrong with equal parts, too, is told of these


def _in_parts(program: Program) -> frozenset[Dim]:
    """The dimensions of which parts meet elementwise that rounding makes of different sizes."""
    roots = [*program.outputs.values(), *program.lets.values(), *program.gradients.values()]
    dims = [dim for node in topological(*roots) for dim in extent(node).dims]
    met = [part for dim in dims if isinstance(dim, tuple) and dim[0] == "broadcast" for part in dim[1]]
    return frozenset(whole for part in met if is_rounded(part) for whole in divided_by(part))


def _program(spec: Spec, *, equal_parts: frozenset[Dim] | None = frozenset()) -> Program:
    if all(name == formula.name for formula, name in spec.rounds):  # else what is repeated is a loop unrolled
        parser = _Parser(spec, Divider(), equal_parts=equal_parts)
        program = parser.program()
        differentiated = [program.outputs[o.name] for o in spec.outputs if o.grad]
        tensors = {program.symbols[t.name] for t in spec.tensors if t.grad and t.dtype == "float"}
        if not parser.divided.divides and not multiplies(differentiated, tensors):
            return program
    return _Parser(spec, Divider(by_name=True), equal_parts=equal_parts).program()


def _several(bound: Bound) -> str:
    return f"a value is needed, and this has several; add {each_field('', bound.fields or ())}"


@dataclass
class _Parser:
    spec: Spec
    divided: Divider
    equal_parts: frozenset[Dim] | None
    mistakes: list[Mistake] = field(default_factory=list)
    calls: dict[str, tuple[Formula, int]] = field(default_factory=dict)

    @property
    def by_position(self) -> bool:
        """Whether shapes meet from the right alone."""
        return self.spec.options.align == "positions"

    def program(self) -> Program:
        """Parse the formulas from top to bottom, each in a scope of what it may use."""
        spec = self.spec
        symbols = {t.name: symbol(t.name, _TENSOR_KINDS[t.dtype], t.shape) for t in spec.tensors}
        symbols |= {h.name: symbol(h.name, h.type) for h in spec.hyperparameters}
        names = {name: Bound(symbol, sources_of(symbol)) for name, symbol in symbols.items()}
        elsewhere = self._elsewhere()
        sizes = _sizes(spec, symbols, {*names, *elsewhere})
        scope = Scope(
            {**names, **sizes},
            self._choices(symbols),
            elsewhere,
            equal_parts=self.equal_parts,
            by_position=self.by_position,
            lenders=tuple(symbols[t.name] for t in spec.tensors if t.default is None),
        )
        lets = self._lets(scope)
        outputs = {output.name: self._divided(self._formula(output.formula, scope)) for output in spec.outputs}
        shaped = {o.name: self._output(o, outputs[o.name], scope) for o in spec.outputs}
        cotangents = {o.name: cotangent(o.name, shaped[o.name]) for o in spec.outputs if o.grad}
        gradients = self._gradients(scope, outputs, cotangents)
        program = Program(
            _with_places(spec, _known(shaped).values()),
            symbols,
            lets,
            _known(shaped),
            _known(gradients),
            cotangents,
            self.calls,
            self.divided.orders,
        )
        self._check_branches(program)
        self._check_absence(program)
        if self.mistakes:
            raise SpecError(self.mistakes)
        return program

    def _check_branches(self, program: Program) -> None:
        """Note where the shapes of a formula contradict each other on one way through its branches alone."""
        for formula, root in self._results(program):
            try:
                for end in ends(split({"value": root}, self._choices(program.symbols))):
                    extent(end["value"])
            except ShapeConflict as conflict:
                self._unless(f"in one of its branches {conflict}", formula, root)

    def _check_absence(self, program: Program) -> None:
        """Note where a formula has no value without an optional tensor."""
        for formula, root in self._results(program):
            whole = root  # with the choices so far: several tensors may be absent
            for tensor, value in program.optional.items():
                try:
                    whole = whether_given(whole, tensor, value, program.given)
                except ShapeConflict as conflict:
                    self._unless(f"where {tensor.name!r} is None: {conflict}", formula, root)

    def _results(self, program: Program) -> list[tuple[Formula, Expr]]:
        """The outputs and overrides, as they are written and as expressions."""
        outputs = [(o.formula, program.outputs.get(o.name)) for o in self.spec.outputs]
        gradients = [(formula, program.gradients.get(name)) for name, formula in self.spec.gradients.items()]
        return [(formula, root) for formula, root in (*outputs, *gradients) if root is not None]

    def _choices(self, symbols: Mapping[str, Expr]) -> dict[Expr, tuple[str, ...]]:
        texts = [h for h in self.spec.hyperparameters if h.type == "str" and h.choices is not None]
        return {symbols[h.name]: tuple(map(str, h.choices or ())) for h in texts}

    def _elsewhere(self) -> dict[str, str]:
        """Why a name of the spec is not to be used, where it is not."""
        lets = {f.name: f"{f.name!r} is defined further down" for f in self.spec.let}
        names = [output.name for output in self.spec.outputs]
        outputs = {name: f"{name!r} is an output; name what is shared under 'let'" for name in names}
        gradients = {f"grad_{name}": f"'grad_{name}' is known under 'gradients' only" for name in names}
        return {**gradients, **lets, **outputs}

    def _lets(self, scope: Scope) -> dict[str, Expr]:
        lets: dict[str, Expr] = {}
        wrong = set[Formula]()  # what a round is told once
        for formula, known_as in self.spec.rounds:
            if formula in wrong:
                continue
            own = {formula.name: f"{formula.name!r} is what is defined here"}
            bound = self._formula(formula, replace(scope, elsewhere={**scope.elsewhere, **own}, may_widen=True))
            bound = self._divided(bound, whole=True)
            scope.names[formula.name] = bound
            for name, part in (bound.fields or {}).items():
                if part.expr is not None and f"{known_as}_{name}" not in scope.names:
                    lets[f"{known_as}_{name}"] = part.expr
            if bound.expr is not None:
                lets[known_as] = bound.expr
            elif bound.fields is None:
                wrong.add(formula)
        return lets

    def _output(self, output: Output, bound: Bound, scope: Scope) -> Expr | None:
        """The output with its whole shape, if it is one."""
        fault = ""
        shaped = bound.expr and with_shape(bound.expr, bound.sources)
        if bound.fields:
            fault = _several(bound)
        elif shaped and is_number(shaped):
            fault = "depends on no tensor"
        elif shaped and output.grad and (kind := _without_gradient(shaped)):
            in_python = f"@symgrad.op(no_grad=[{output.name!r}])"
            cure = in_python if self.spec.path.endswith(".py") else "{expr: ..., grad: false}"
            fault = f"{kind} has no gradient; write {cure}"
        elif shaped and (conflict := self._contradicted(shaped)):
            fault = f"the shapes under test.shapes do not fit: {conflict}"
        elif shaped and (name := self.spec.options.inplace):
            fault = _misfit(shaped, scope.names.get(name, Bound()).expr)
        return self._unless(fault, output.formula, shaped)

    def _contradicted(self, value: Expr) -> str | None:
        """Why a value cannot be computed of tensors of the shapes that the test is to sample."""
        shapes = {s: self.spec.test.shapes.get(s.name) for s in value.tensors}
        given = {s: shape for s, shape in shapes.items() if shape is not None}
        defaults = {h.name: h.default for h in self.spec.hyperparameters}
        return Fitting([value], [defaults]).conflict(given, may_be_empty=True) if given else None

    def _gradients(
        self, scope: Scope, outputs: Mapping[str, Bound], cotangents: Mapping[str, Expr]
    ) -> dict[str, Expr | None]:
        names = {**scope.names, **outputs}
        elsewhere = {
            f"grad_{o.name}": f"the output {o.name!r} has 'grad: false', so it has no gradient"
            for o in self.spec.outputs
            if not o.grad
        }
        written_as = {o.name: o.formula.where.rpartition(".")[2] or o.name for o in self.spec.outputs}
        for output, own in cotangents.items():
            name = own.name
            if names.pop(name, None):
                elsewhere[name] = f"{name!r} is declared, and is the gradient of {output!r} too; rename one"
            else:
                names[name] = Bound(own, sources_of(own))
                written = f"grad_{written_as[output]}"  # beside a tensor of this name the output has another one
                names.setdefault(written, names[name])
        required = all(t.default is None for t in self.spec.tensors)
        declared = [*(t.name for t in self.spec.tensors), *(h.name for h in self.spec.hyperparameters)]
        arguments = [scope.names[name].expr for name in declared] if required else []
        inner = Scope(
            names,
            scope.choices,
            elsewhere,
            outputs=tuple(o.name for o in self.spec.outputs),
            arguments=tuple(a for a in arguments if a is not None),
            equal_parts=self.equal_parts,
            by_position=self.by_position,
            lenders=scope.lenders,
        )
        return {
            name: self._gradient(formula, self._formula(formula, inner), scope.names.get(name, Bound()).expr)
            for name, formula in self.spec.gradients.items()
        }

    def _gradient(self, formula: Formula, bound: Bound, tensor: Expr | None) -> Expr | None:
        fault = ""
        if bound.fields:
            fault = _several(bound)
        elif bound.expr and (bound.expr.is_boolean or is_text(bound.expr)):
            fault = "a gradient is a number; write where(condition, a, b)"
        elif bound.expr and tensor and (conflict := _conflict(bound.expr, tensor)):
            fault = f"not of the shape of {tensor.name!r}: {conflict}"
        return self._unless(fault, formula, bound.expr)

    def _unless(self, fault: str, formula: Formula, value: Expr | None) -> Expr | None:
        """``value``, or None with a mistake noted."""
        if not fault:
            return value
        self.mistakes.append(self.spec.mistake(formula, 0, fault))
        return None

    def _divided(self, bound: Bound, *, whole: bool = False) -> Bound:
        """What a name stands for, with its regions of bounded size: at once, for what is built of it merges with it."""
        if bound.expr is None:
            return bound
        return replace(bound, expr=self.divided(bound.expr, whole=whole))

    def _formula(self, formula: Formula, scope: Scope) -> Bound:
        """What a formula stands for; nothing, where it is wrong."""
        if len(self.mistakes) >= _MAX_MISTAKES:
            return Bound()
        try:
            builder = Builder(read(formula.text), scope)
            bound = builder.result()
            self.calls = {name: (formula, offset) for name, offset in builder.calls.items()} | self.calls
            self.divided.orders = builder.orders | self.divided.orders
            return bound
        except FormulaError as error:
            for fault in error.faults:
                self.mistakes.append(self.spec.mistake(formula, fault.offset, fault.message))
            return Bound()


def _sizes(spec: Spec, symbols: Mapping[str, Expr], taken: Collection[str]) -> dict[str, Bound]:
    """The named dimensions as their sizes, told by the first tensor that has them; by an optional one if need be.

    A name that something else declared has is not that of a size; one that a constant has is.
    """
    sizes: dict[str, Bound] = {}
    for tensor in sorted(spec.tensors, key=lambda t: t.default is not None):
        for place, dim in enumerate(reversed(tensor.shape or ()), start=1):
            if isinstance(dim, str) and dim not in ("...", *taken):
                sizes.setdefault(dim, Bound(make("count", symbols[tensor.name], dim=(-place,))))
    return sizes


def _constant(tensor: Tensor) -> Expr:
    """The default of an optional tensor."""
    if tensor.dtype == "bool":
        return ex.TRUE if tensor.default else ex.FALSE
    return ex.num(Fraction(str(+(tensor.default or 0))))


def _with_places(spec: Spec, formulas: Iterable[Expr]) -> Spec:
    """The spec with what tests draw of integers that name places: numbers below the sizes that are tested."""
    ranges = dict(spec.test.ranges)
    given = {t.name: t for t in spec.tensors}
    bound: dict[Dim, int] = {}
    for t in spec.tensors:
        bound |= dict(zip(reversed(t.shape or ()), reversed(spec.test.shapes.get(t.name, ())), strict=False))
    formulas = list(formulas)
    shifted = shifts(formulas)
    for tensor, sizes in places(formulas).items():
        least, most = shifted[tensor]
        known = [size if isinstance(size, int) else bound.get(size, _LEAST_TESTED) for size in sizes]
        if tensor.name not in ranges and given[tensor.name].domain is None:
            ranges[tensor.name] = (-least, max(-least, min(known) - 1 - most))
    return replace(spec, test=replace(spec.test, ranges=ranges)) if ranges != spec.test.ranges else spec


def _known(values: Mapping[str, Expr | None]) -> dict[str, Expr]:
    return {name: value for name, value in values.items() if value is not None}


def _conflict(*values: Expr) -> str:
    """Why values do not broadcast; empty where they may."""
    try:
        side_by_side(*values)
    except ShapeConflict as conflict:
        return str(conflict)
    return ""


def _misfit(value: Expr, overwritten: Expr | None) -> str:
    """Why a result cannot be written into a tensor; empty where it can, if the tensors broadcast to its shape."""
    if overwritten is None:
        return ""
    if overwritten not in shape_sources(value) and not same_shape(shape_sources(value), overwritten):
        return f"not known to be of the shape of {overwritten.name!r}, which 'inplace' overwrites"
    own, known = extent(value), extent(overwritten)
    if own.exact and known.exact and own != known:
        return f"of shape {own}, where {overwritten.name!r}, which 'inplace' overwrites, has {known}"
    kinds = [("int_tensor", "integers", is_integer(value)), ("bool_tensor", "truth values", value.is_boolean)]
    held = next((text for kind, text, fits in kinds if overwritten["kind"] == kind and not fits), "")
    return held and f"{overwritten.name!r}, which 'inplace' overwrites, holds {held}; the result does not"


def _without_gradient(expr: Expr) -> str:
    """What kind of value it is, if torch cannot differentiate it."""
    if expr.is_boolean:
        return "a truth value"
    if expr.op in TENSOR_OPS and not TENSOR_OPS[expr.op].differentiable:
        return "an index"
    return "an integer" if is_integer(expr) else ""
