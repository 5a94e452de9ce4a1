"""Names and facts of one operation that every function of its module shares."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

from symgrad.analysis.integers import is_integer
from symgrad.compiler.operation import Operation, Variant
from symgrad.ir.branches import absent
from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import substitute, topological
from symgrad.lower.code import Code, code
from symgrad.lower.naming import Names
from symgrad.lower.program import Assign, Program, Return, Statement, missing, returned
from symgrad.ops.tensors import data_arguments, is_index
from symgrad.ops.tensors.extent import extent
from symgrad.ops.tensors.shapes import shape_sources
from symgrad.rules.tensors import less_logsumexp
from symgrad.spec import Spec
from symgrad.targets.arrays.printer import Printer
from symgrad.targets.arrays.schedule import Scope, Target, statements
from symgrad.targets.arrays.spelling import Spelling

__all__ = ["Layout"]

_RESERVED = [
    *("jax", "jnp", "mx", "nn", "rt", "math", "functools", "special", "dtype", "terms", "primals", "tangents"),
    *("outputs", "cotangents", "residuals", "self", "float", "int", "bool", "str", "super", "gradients"),
]


@dataclass
class Layout:
    """The names of arguments, outputs, cotangents and tangents, in the words of a framework."""

    operation: Operation
    spelling: Spelling
    constants: dict[Expr, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.operation = self.operation.in_one_type()

    @property
    def spec(self) -> Spec:
        return self.operation.program.spec

    @cached_property
    def _local(self) -> tuple[Names, dict[str, str], dict[str, str]]:
        spec = self.spec
        names = Names([*_RESERVED, f"_{spec.op}", spec.op])
        for word in [f"grad_{o.name}" for o in spec.outputs] + [f"tangent_{t.name}" for t in spec.tensors]:
            names.reserve(word)
        arguments = {a: names.reserve(a) for a in (*(t.name for t in spec.tensors), *self.hyperparameters)}
        outputs = {o.name: names.reserve(o.name) for o in spec.outputs}
        return names, arguments, outputs

    @property
    def hyperparameters(self) -> list[str]:
        return [h.name for h in self.spec.hyperparameters]

    @property
    def arguments(self) -> Mapping[str, str]:
        """The local name of each argument."""
        return self._local[1]

    @property
    def outputs(self) -> Mapping[str, str]:
        """The local name of each output."""
        return self._local[2]

    @property
    def tensors(self) -> list[str]:
        """The local names of the tensors."""
        return [self.arguments[t.name] for t in self.spec.tensors]

    @property
    def values(self) -> list[str]:
        """The local names of the hyperparameters."""
        return [self.arguments[h] for h in self.hyperparameters]

    @cached_property
    def differentiable(self) -> list[str]:
        """Tensors that can have a gradient."""
        return [t.name for t in self.spec.tensors if t.grad and t.dtype == "float"]

    @cached_property
    def variants(self) -> list[Variant]:
        return [variant for _, variant in self.operation.variants()]

    def symbol(self, argument: str) -> Expr:
        return self.operation.program.symbols[argument]

    def symbols(self, variant: Variant | None = None) -> dict[Expr, str | Code]:
        """The names of arguments: of those that a variant may read; and how their absence is asked for."""
        program = self.operation.program
        known: dict[Expr, str | Code] = {program.symbols[name]: local for name, local in self.arguments.items()}
        if variant is not None:
            gone = {self.symbol(t.name) for t in self.spec.tensors if t.default is not None} - variant.tensors
            known = {s: name for s, name in known.items() if s not in gone}
        return known | {absent(t.name): missing(self.arguments[t.name]).code for t in self.spec.tensors}

    def scope(self, known: dict[Expr, str | Code], variant: Variant) -> Scope:
        taken, arguments, outputs = self._local
        names = taken.copy((*arguments.values(), *outputs.values()))
        return Scope(names, known, dict(variant.lets))

    def printer(self, names: Mapping[Expr, str | Code], *, differentiated: bool = False) -> Printer:
        return Printer(self.spelling, names, self.constants, differentiated=differentiated)

    def condition(self, node: Expr) -> Code:
        """A Python condition between variants."""
        return self.printer(self.symbols())(node)

    # ------------------------------------------------------------------------------------------ dtypes
    def widening(self, variant: Variant, *, slopes: bool = False) -> str:
        """The function of the runtime file that brings arrays to the dtype of the arithmetic."""
        if self.spec.options.accumulate == "same":
            return "alike"
        return "widest" if (variant.wide_slopes if slopes else variant.wide_values) else "widen"

    def floats(self, variant: Variant) -> list[str]:
        """The local names of the tensors of floats that a variant reads."""
        own = (t for t in self.spec.tensors if t.dtype == "float")
        return [self.arguments[t.name] for t in own if self.symbol(t.name) in variant.tensors]

    def promoted(self, formula: Expr) -> list[str] | None:
        """The tensors that give an output its dtype; None where it is of integers or truth values."""
        if formula.is_boolean or is_index(formula) or is_integer(formula):
            return None
        own = _float_sources(formula) or {s for s in formula.tensors if s["kind"] == "tensor"}
        return [self.arguments[t.name] for t in self.spec.tensors if self.symbol(t.name) in own]

    # ------------------------------------------------------------------------------------------ functions
    def value(self, variant: Variant) -> Program:
        """The body of the function: the outputs, rounded to their dtypes."""
        scope = self.scope(self.symbols(variant), variant)
        floats, sources = self.floats(variant), {o: self.promoted(f) for o, f in variant.formulas.items()}
        program, dtypes = list[Statement](), dict[str, str]()
        for output, promoted in sources.items():
            if promoted is not None and promoted != floats:
                name = "dtype" if len(sources) == 1 else scope.names.fresh(f"{output}_dtype")
                dtypes[output] = name
                program.append(Assign(name, code("rt.dtype_of({0})", promoted)))
            elif promoted is not None:
                dtypes[output] = "dtype"
        if floats:
            rounds = any(p == floats for p in sources.values())
            widened = code(f"rt.{self.widening(variant)}({{0}})", floats)
            program.append(Assign((*floats, "dtype" if rounds else "_"), widened))
        targets, results = list[Target](), list[Code]()
        for output, form in variant.outputs.items():
            whole = _whole(form, variant.formulas[output])
            rounded = f"{{0}}.astype({dtypes[output]})" if output in dtypes else "{0}"
            local = self.outputs[output]
            if len(variant.outputs) == 1:
                targets.append(Target(whole, partial(_returned, rounded)))
            else:
                targets.append(Target(whole, partial(Assign, local)))
                results.append(code(rounded, local))
        body = (*program, *statements(targets, scope, self.printer))
        return (*body, returned(results)) if results else body

    def tangent_terms(self, variant: Variant) -> list[tuple[str, str, Expr]]:
        """What each tensor's tangent gives to each output's: (tensor, output, form)."""
        found = []
        for tensor in self.differentiable:
            for output in (o.name for o in self.spec.outputs if o.grad):
                form = variant.tangent_of(output, tensor)
                if form is not None:
                    found.append((tensor, output, _normalised(form, variant.outputs.values())))
        return found


def _returned(template: str, value: Code) -> Statement:
    return Return(code(template, value))


def _normalised(form: Expr, outputs: Collection[Expr]) -> Expr:
    """A form with `exp(a - logsumexp(a))` as the softmax, unless the logarithm is an output and at hand.

    What computes the difference of large numbers anew may round them otherwise than the logarithm's own terms: XLA
    contracts products and differences.
    """
    found = {}
    for node in topological(form):
        if node.op == "exp" and node.args[0].op == "add" and not any(o in outputs for o in topological(node)):
            less = less_logsumexp(node.args[0])
            if less is not None and less.op == "log_softmax":
                found[node] = make("softmax", less.args[0], dim=less["dim"])
    return substitute(form, found)


def _whole(form: Expr, formula: Expr) -> Expr:
    """A form in the shape of its formula, of which tensors may have cancelled."""
    known = extent(form), extent(formula)
    if known[0] == known[1] and known[0].exact:
        return form
    missing = shape_sources(formula) - shape_sources(form)
    return make("expand", form, formula) if missing and form.op != "expand" else form


def _float_sources(formula: Expr) -> set[Expr]:
    """The tensors of floats whose values reach a formula's, and not only its conditions or indices."""
    found, seen, pending = set[Expr](), set[Expr](), [formula]
    while pending:
        node = pending.pop()
        if node in seen or node.is_boolean or is_index(node):
            continue
        seen.add(node)
        if node.op == "sym" and node["kind"] == "tensor":
            found.add(node)
        pending += node.args if node.op == "expand" else data_arguments(node)
    return found
