"""The names and facts that all methods of one generated module share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from symgrad.analysis.places import places
from symgrad.compiler.operation import Body, Operation, Variant
from symgrad.differentiate.symbols import cotangent, tangent
from symgrad.ir.branches import absent
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.lower.code import Code, attribute, name
from symgrad.lower.naming import Names, class_name
from symgrad.lower.program import missing
from symgrad.ops.functions import FUNCTIONS
from symgrad.ops.tensors import TENSOR_OPS, Ref, is_index
from symgrad.ops.tensors.einsum import contracts_nothing
from symgrad.plan.packing import is_inexact
from symgrad.plan.reading import is_drawn
from symgrad.plan.saving import Saved
from symgrad.spec import Spec
from symgrad.targets.torch.printer import Printer
from symgrad.targets.torch.roundings import roundings

PrintingOf: TypeAlias = "Callable[[Mapping[Expr, str | Code], Mapping[Expr, Code], Mapping[Expr, Code]], Printer]"

# Names that the methods of a generated module use themselves.
_RESERVED = """
    ctx inputs outputs output saved terms dtype torch math F Any Tensor Function forward_ad self device value isinstance
    tuple sum len None True False staticmethod property super type rt ValueError residuals float int bool str
"""

# What torch's ctx has already, and what the methods put there themselves.
_ON_CTX = """
    apply autocast backward boxed_grads_call call clear_saved_tensors_on_access dirty_tensors dtypes forward
    generate_vmap_rule inputs jvp mark_dirty mark_non_differentiable mark_shared_storage materialize_grads
    maybe_clear_saved_tensors metadata name needs_input_grad next_functions non_differentiable op outputs register_hook
    register_prehook requires_grad residuals save_for_backward save_for_forward saved_for_forward saved_tensors
    saved_variables set_materialize_grads setup_context shapes to_save vjp vmap
"""
_TAKEN_ON_CTX = frozenset(_ON_CTX.split())

_ACCURATE = frozenset(row.name for row in FUNCTIONS.values() if row.introduced)


@dataclass
class Layout:
    """Names of arguments, cotangents, wants and tangents, and which facilities the module needs."""

    operation: Operation
    constants: dict[Expr, str] = field(default_factory=dict)

    @property
    def spec(self) -> Spec:
        return self.operation.program.spec

    @cached_property
    def class_name(self) -> str:
        """SmoothL1Function for smooth_l1, without the suffix."""
        return class_name(self.spec.op)

    @cached_property
    def _names(self) -> tuple[Names, dict[str, str], dict[str, str]]:
        spec = self.spec
        names = Names([*_RESERVED.split(), f"{self.class_name}Function", f"{self.class_name}InplaceFunction"])
        for output in spec.outputs:
            names.reserve(f"grad_{output.name}")
        for tensor in spec.tensors:
            names.reserve(f"needs_{tensor.name}")
            names.reserve(f"tangent_{tensor.name}")
            names.reserve(f"grad_{tensor.name}")
        # What starts with an underscore belongs to the plumbing; Python calls __x otherwise in each class.
        arguments = {a: names.reserve(_own(a)) for a in self.argument_names}
        outputs = {o.name: names.reserve(_own(o.name)) for o in spec.outputs}
        return names, arguments, outputs

    @property
    def argument_names(self) -> list[str]:
        """Tensors, then hyperparameters, as the user calls them."""
        return [*(t.name for t in self.spec.tensors), *(h.name for h in self.spec.hyperparameters)]

    @property
    def arguments(self) -> Mapping[str, str]:
        """The local name of each argument inside the methods."""
        return self._names[1]

    def on_ctx(self, hyperparameter: str) -> Code:
        """The attribute of ctx that holds a hyperparameter."""
        own = hyperparameter
        if hyperparameter.startswith("__"):  # Python calls __x otherwise in each class
            own = f"own{hyperparameter}"
            while own in self.argument_names:
                own += "_"
        elif hyperparameter in _TAKEN_ON_CTX or hyperparameter.startswith(("_", "without_")):
            own += "_"
        return attribute(name("ctx"), own)

    def without(self, tensor: str) -> Code:
        """The attribute of ctx that says whether an optional tensor is absent."""
        return attribute(name("ctx"), f"without_{tensor}")

    @property
    def outputs(self) -> Mapping[str, str]:
        """The local name of each output inside the methods."""
        return self._names[2]

    @property
    def tensors(self) -> list[str]:
        """Local names of the tensors."""
        return [self.arguments[t.name] for t in self.spec.tensors]

    def names(self) -> Names:
        """Fresh names for one method, none of which is an argument."""
        taken, arguments, outputs = self._names
        return taken.copy((*arguments.values(), *outputs.values()))

    def symbols(self, variant: Variant | None = None) -> dict[Expr, str | Code]:
        """Python names of all symbols, and how absence is asked for; for one variant, of its cotangents and of tensors
        that it may read."""
        program = self.operation.program
        known: dict[Expr, str | Code] = {program.symbols[name]: local for name, local in self.arguments.items()}
        if variant is not None:
            optional = {program.symbols[t.name] for t in self.spec.tensors if t.default is not None}
            known = {s: name for s, name in known.items() if s not in optional or s in variant.tensors}
        for output in self.spec.outputs:
            symbols = [
                cotangent(output.name),
                *(cotangent(output.name, v.formulas[output.name]) for v in ([variant] if variant else self.variants)),
            ]
            known |= dict.fromkeys(symbols, f"grad_{output.name}")
        for tensor in self.spec.tensors:
            known[tangent(tensor.name)] = f"tangent_{tensor.name}"
            known[absent(tensor.name)] = missing(self.arguments[tensor.name]).code
        return known

    def printing(
        self,
        beside: Sequence[Code | str] = (),
        *,
        as_written: bool = False,
        differentiable: bool = False,
        introduced: Collection[str] = (),
    ) -> PrintingOf:
        """What makes a printer in some scope, with the constants of the module; in the dtype of what is `beside` whole
        numbers, floats are made of these."""
        how = {"as_written": as_written, "differentiable": differentiable}
        return lambda names, shapes, dtypes: Printer(
            names, self.constants, shapes, dtypes, introduced=introduced, beside=beside, **how
        )

    def printing_derivatives(self, beside: Sequence[Code | str]) -> PrintingOf:
        """The same for derivatives, which autograd may differentiate again."""
        return self.printing(beside, differentiable=True, introduced=self._introduced)

    @cached_property
    def _introduced(self) -> frozenset[str]:
        """Functions that the spec does not have, and of which torch's own derivative is less accurate."""
        return _ACCURATE - {n.op for n in topological(*self.operation.program.outputs.values())}

    def symbol(self, argument: str) -> Expr:
        """The symbol of an argument."""
        return self.operation.program.symbols[argument]

    def environment(self, values: Sequence[Any]) -> dict[Expr, Any]:
        """Values of all hyperparameters by symbol."""
        return {self.symbol(h.name): v for h, v in zip(self.spec.hyperparameters, values, strict=True)}

    # ------------------------------------------------------------------------------------------ facts
    @cached_property
    def variants(self) -> list[Variant]:
        return [variant for _, variant in self.operation.variants()]

    @cached_property
    def formulas(self) -> list[Expr]:
        """The formulas of all variants."""
        return [f for variant in self.variants for f in variant.formulas.values()]

    @cached_property
    def lets(self) -> dict[Expr, str]:
        """The names that the spec gives to intermediates, by their forms."""
        return {form: name for variant in self.variants for form, name in variant.lets.items()}

    @cached_property
    def places(self) -> dict[Expr, str]:
        """The tensors of integers that name places, which stay integers, with their local names."""
        named = places(self.formulas)
        pairs = zip(self.spec.tensors, self.tensors, strict=True)
        return {self.symbol(t.name): local for t, local in pairs if self.symbol(t.name) in named}

    @property
    def optional(self) -> bool:
        """Whether a tensor may be absent."""
        return any(t.default is not None for t in self.spec.tensors)

    @cached_property
    def differentiable(self) -> list[str]:
        """Tensors that can have a gradient."""
        return [t.name for t in self.spec.tensors if t.grad and t.dtype == "float"]

    @cached_property
    def widens(self) -> bool:
        """Whether forward computes half precision in a wider type."""
        if self.spec.options.accumulate == "same":
            return False
        if self.keeps:  # which must not be rounded
            return True
        forms = [form for v in self.variants for form in v.outputs.values()]
        return self.wide_values or any(roundings(form) > 1 + _products(form) for form in forms)

    @property
    def rounds_products(self) -> bool:
        """Whether products of half precision are rounded before what follows them, as by torch: they run several
        times as fast as in float32, and add up in float32 all the same."""
        return self.multiplies and not self.widens

    @property
    def widened(self) -> list[str]:
        """Local names of the tensors that forward may have to widen."""
        return self.computed_wide if self.widens else []

    @property
    def computed_wide(self) -> list[str]:
        """Local names of the tensors that are widened where anything is: whole numbers only where all is in float64."""
        whole = {"float", "int"} if self.wide_values else {"float"}
        return [self.arguments[t.name] for t in self.spec.tensors if t.dtype in whole]

    @cached_property
    def widens_slopes(self) -> bool:
        """Whether backward does."""
        if self.spec.options.accumulate == "same":
            return False
        if self.wide_slopes or (self.multiplies and self.widens):  # products want equal dtypes
            return True
        for variant in self.variants:
            kept = frozenset(s.value for s in variant.plan.base)
            if any(roundings(g, kept) > 1 for g in derivatives(variant)):
                return True
            totals = (variant.gradients_of(t) for t in self.differentiable)  # from several outputs they are added up
            if any(sum(roundings(g, kept) for g in terms) + len(terms) > 2 for terms in totals):
                return True
        return False

    @cached_property
    def wide_values(self) -> bool:
        return any(v.wide_values for v in self.variants)

    @cached_property
    def wide_slopes(self) -> bool:
        return any(v.wide_slopes for v in self.variants)

    @cached_property
    def multiplies(self) -> bool:
        """Whether there are products or convolutions, which autocast casts."""
        nodes = topological(*(form for v in self.variants for form in v.outputs.values()))
        return any(map(wants_one_dtype, nodes))

    @cached_property
    def mixes(self) -> bool:
        """Whether cotangents and tangents of a product may have another dtype than its operands.

        They cannot where each operand is made of one tensor, nothing else is beside the product, and torch wants
        operands of one dtype.
        """
        for variant in self.variants:
            present = _floats(*variant.formulas.values())
            for product in filter(wants_one_dtype, topological(*variant.formulas.values())):
                several = any(len(_floats(a)) > 1 for a in product.args)
                if several or _floats(product) != present or contracts_nothing(product):
                    return True
        return False

    @cached_property
    def is_packed(self) -> bool:
        """Whether something is kept in fewer bits."""
        return any(s.packing is not None for v in self.variants for s in v.plan.saved)

    @cached_property
    def is_once(self) -> bool:
        """Whether what backward reads has lost its derivative, because it was packed."""
        return any(s.spared or is_inexact(s) for v in self.variants for s in v.plan.base)

    @cached_property
    def keeps(self) -> int:
        """How many residuals forward returns, in the variant that keeps most."""
        return max(len(self.returned(variant)) for variant in self.variants)

    def kept(self, variant: Variant) -> tuple[Saved, ...]:
        """The float intermediates that forward returns for backward in one variant."""
        return () if self.wide_slopes else variant.plan.extras

    def returned(self, variant: Variant) -> tuple[Saved, ...]:
        """What forward returns beside the outputs: those of them that are no outputs as well, and what it chose."""
        outputs = frozenset(variant.outputs.values())
        return (*(s for s in self.kept(variant) if s.value not in outputs), *self.chosen(variant))

    def chosen(self, variant: Variant) -> tuple[Saved, ...]:
        """What has no derivative and forward has at hand: indices that operations find beside what they stand for, and
        masks that were drawn."""
        if self.spec.options.fused or self.is_packed:
            return ()
        forward = topological(*variant.outputs.values())
        beside = {(n.args, n.attrs) for n in forward if n.op in TENSOR_OPS and not is_index(n)}
        masks = [s for s in variant.plan.base if s.source == "mask" and s.value not in variant.outputs.values()]
        found = (is_index(s.value) and (s.value.args, s.value.attrs) in beside for s in masks)
        return tuple(s for s, own in zip(masks, found, strict=True) if own or is_drawn(s.value))

    @cached_property
    def hyperparameters_on_ctx(self) -> list[str]:
        """Hyperparameters that backward or jvp read beside what is always saved, in order."""
        program, spec = self.operation.program, self.spec
        used = set(conditions(self.operation.derivative_body))
        for variant in self.variants:
            kept = frozenset(s.value for s in variant.plan.base)
            used.update(n for n in topological(*derivatives(variant), leaves=kept) if n not in kept)
        named = references(used)
        return [h.name for h in spec.hyperparameters if program.symbols[h.name] in used or h.name in named]

    @cached_property
    def absences_on_ctx(self) -> list[str]:
        """Optional tensors whose absence backward and jvp must know: their fused passes are those of each variant."""
        used = conditions(self.operation.body if self.spec.options.fused else self.operation.derivative_body)
        return [t.name for t in self.spec.tensors if absent(t.name) in used]


def _own(name: str) -> str:
    return f"own{name}" if name.startswith("__") else f"{name}_" if name.startswith("_") else name


def wants_one_dtype(node: Expr) -> bool:
    """Whether an operation wants operands of equal dtypes: a product or a convolution."""
    row = TENSOR_OPS.get(node.op)
    return row is not None and row.linear and not row.recompute


def _products(form: Expr) -> int:
    """How many products a form has whose operands are tensors as they are given, or moved."""
    return sum(wants_one_dtype(n) and not any(map(roundings, n.args)) for n in topological(form))


def _floats(*values: Expr) -> frozenset[Expr]:
    """The tensors of floats that values are made of."""
    return frozenset(s for v in values for s in v.tensors if s["kind"] == "tensor")


def derivatives(variant: Variant) -> list[Expr]:
    """Everything that backward and jvp compute."""
    transposed = [e for o in variant.overrides.values() for e in (o.transposed or {}).values()]
    return [
        *variant.gradients.values(),
        *variant.tangents.values(),
        *(o.gradient for o in variant.overrides.values()),
        *transposed,
    ]


def references(nodes: Iterable[Expr]) -> frozenset[str]:
    """The hyperparameters that are attributes of tensor operations among some nodes, such as a `dim`."""
    found: set[str] = set()
    for node in nodes:
        for _, value in node.attrs:
            found.update(v.name for v in (value if isinstance(value, tuple) else (value,)) if isinstance(v, Ref))
    return frozenset(found)


def conditions(body: Body) -> frozenset[Expr]:
    """The symbols of the Python conditions in a tree of variants."""
    if isinstance(body, Variant):
        return frozenset()
    then, otherwise = conditions(body.then), conditions(body.otherwise)
    return body.condition.symbols | then | otherwise
