"""The names and facts that all methods of one generated module share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from symgrad.branches import Split
from symgrad.cost import is_product
from symgrad.differentials import absent, cotangent, tangent
from symgrad.expr import OO, Expr
from symgrad.machine import machine
from symgrad.naming import Names
from symgrad.operation import Body, Operation, Variant
from symgrad.plan import Saved
from symgrad.spec import Spec
from symgrad.tensor_ops import TENSOR_OPS, Ref
from symgrad.tensor_ops.einsum import contracts_nothing
from symgrad.traversal import topological

# Names that the methods of a generated module use themselves.
_RESERVED = [
    "ctx",
    "inputs",
    "outputs",
    "output",
    "saved",
    "terms",
    "dtype",
    "torch",
    "math",
    "F",
    "Any",
    "Tensor",
    "Function",
    "forward_ad",
    "self",
    "device",
    "value",
    "isinstance",
    "tuple",
    "sum",
    "len",
    "None",
    "True",
    "False",
    "staticmethod",
    "property",
    "super",
    "type",
    "keep",
    "kept",
    "float",
    "int",
    "bool",
    "str",
]

# What torch's ctx has already, and what the methods put there themselves.
_ON_CTX = frozenset(
    [
        "apply",
        "autocast",
        "backward",
        "boxed_grads_call",
        "clear_saved_tensors_on_access",
        "dirty_tensors",
        "dtypes",
        "forward",
        "generate_vmap_rule",
        "jvp",
        "mark_dirty",
        "mark_non_differentiable",
        "mark_shared_storage",
        "materialize_grads",
        "maybe_clear_saved_tensors",
        "metadata",
        "name",
        "needs_input_grad",
        "next_functions",
        "non_differentiable",
        "op",
        "outputs",
        "register_hook",
        "register_prehook",
        "requires_grad",
        "save_for_backward",
        "save_for_forward",
        "saved_for_forward",
        "saved_tensors",
        "saved_variables",
        "set_materialize_grads",
        "setup_context",
        "shapes",
        "to_save",
        "vjp",
        "vmap",
    ]
)

# Powers that torch rounds once; others are products of rounded products.
_ONE_ROUNDING = (Fraction(2), Fraction(-1), Fraction(1, 2), Fraction(-1, 2))

# Operations on half precision of which torch rounds intermediate values, on some device.
_SEVERAL_ROUNDINGS = frozenset({"log_softmax", "logsumexp", "prod", "cumsum", "conv1d_weight", "conv2d_weight"})

# Operations that do not round: applied to half precision they need no wider type.
_EXACT = frozenset({"relu", "where", "abs", "neg", "sign", "clamp", "maximum", "minimum", "floor", "ceil", "round"})

_INTEGERS = 256  # in bfloat16

# Operations on whole tensors that do not, beside the views, which cost nothing.
_MOVES = frozenset({"sum_to", "conform", "amax", "amin", "max_values", "min_values", "sort_values", "take_along"})


@dataclass
class Layout:
    """Names of arguments, cotangents, wants and tangents, and which facilities the module needs."""

    operation: Operation
    constants: dict[Expr, str] = field(default_factory=dict)
    pivots: tuple[str, ...] = ()  # the outputs that plain calls return for their own backward

    @property
    def spec(self) -> Spec:
        return self.operation.program.spec

    @cached_property
    def class_name(self) -> str:
        """SmoothL1Function for smooth_l1, without the suffix."""
        return "".join(part[:1].upper() + part[1:] for part in self.spec.op.split("_"))

    @cached_property
    def _names(self) -> tuple[Names, dict[str, str], dict[str, str]]:
        spec = self.spec
        names = Names([*_RESERVED, f"{self.class_name}Function", f"{self.class_name}InplaceFunction"])
        for word in ("fused", "shapes", "wants") if spec.options.kernels else ():
            names.reserve(word)
        for output in spec.outputs:
            names.reserve(f"grad_{output.name}")
        for tensor in spec.tensors:
            names.reserve(f"wants_{tensor.name}")
            names.reserve(f"tangent_{tensor.name}")
            names.reserve(f"grad_{tensor.name}")
        # What starts with an underscore belongs to the plumbing.
        arguments = {a: names.reserve(f"{a}_" if a.startswith("_") else a) for a in self.argument_names}
        outputs = {o.name: names.reserve(f"{o.name}_" if o.name.startswith("_") else o.name) for o in spec.outputs}
        return names, arguments, outputs

    @property
    def argument_names(self) -> list[str]:
        """Tensors, then hyperparameters, as the user calls them."""
        return [*(t.name for t in self.spec.tensors), *(h.name for h in self.spec.hyperparameters)]

    @property
    def arguments(self) -> Mapping[str, str]:
        """The local name of each argument inside the methods."""
        return self._names[1]

    def on_ctx(self, hyperparameter: str) -> str:
        """The attribute of ctx that holds a hyperparameter."""
        taken = hyperparameter in _ON_CTX or hyperparameter.startswith(("_", "without_"))
        return f"ctx.{hyperparameter}_" if taken else f"ctx.{hyperparameter}"

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
        return Names({*taken._taken, *arguments.values(), *outputs.values()})

    def symbols(self, variant: Variant | None = None) -> dict[Expr, str]:
        """Python names of all symbols; for one variant, of its cotangents and of tensors that it may read."""
        program = self.operation.program
        known = {program.symbols[name]: local for name, local in self.arguments.items()}
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
            known[absent(tensor.name)] = f"{self.arguments[tensor.name]} is None"
        return known

    def symbol(self, argument: str) -> Expr:
        """The symbol of an argument."""
        return self.operation.program.symbols[argument]

    # ------------------------------------------------------------------------------------------ facts
    @cached_property
    def variants(self) -> list[Variant]:
        return [variant for _, variant in self.operation.variants()]

    @cached_property
    def lets(self) -> dict[Expr, str]:
        """The names that the spec gives to intermediates, by their forms."""
        return {form: name for variant in self.variants for form, name in variant.lets.items()}

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
        return self.wide_values or any(_roundings(form) > 1 for v in self.variants for form in v.outputs.values())

    @property
    def widened(self) -> list[str]:
        """Local names of the tensors that forward may have to widen: whole numbers only where all is in float64."""
        whole = {"float", "int"} if self.wide_values else {"float"}
        return [self.arguments[t.name] for t in self.spec.tensors if self.widens and t.dtype in whole]

    @cached_property
    def widens_slopes(self) -> bool:
        """Whether backward does."""
        if self.spec.options.accumulate == "same":
            return False
        if self.wide_slopes or (self.multiplies and self.widens):  # products want equal dtypes
            return True
        for variant in self.variants:
            kept = frozenset(s.value for s in variant.plan.base)
            if any(_roundings(g, kept) > 1 for g in derivatives(variant)):
                return True
            totals = (variant.gradients_of(t) for t in self.differentiable)  # from several outputs they are added up
            if any(sum(_roundings(g, kept) for g in terms) + len(terms) > 2 for terms in totals):
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
        return any(map(_multiplies, nodes))

    @cached_property
    def mixes(self) -> bool:
        """Whether cotangents and tangents of a product may have another dtype than its operands.

        They cannot where each operand is made of one tensor, nothing else is beside the product, and torch wants
        operands of one dtype.
        """
        for variant in self.variants:
            present = _floats(*variant.formulas.values())
            for product in filter(_multiplies, topological(*variant.formulas.values())):
                several = any(len(_floats(a)) > 1 for a in product.args)
                if several or _floats(product) != present or contracts_nothing(product):
                    return True
        return False

    @cached_property
    def keeps(self) -> tuple[Saved, ...]:
        """Float intermediates that a plain call keeps; only operations without Python branches do."""
        return self.variants[0].plan.extras if len(self.variants) == 1 and not self.wide_slopes else ()

    @cached_property
    def hyperparameters_on_ctx(self) -> list[str]:
        """Hyperparameters that backward or jvp read, in order."""
        program, spec = self.operation.program, self.spec
        used: set[Expr] = set()
        for variant in self.variants:
            for value in derivatives(variant):
                used |= value.symbols
            for saved in variant.plan.saved:
                used |= saved.value.symbols
        used |= conditions(self.operation.derivative_body)
        kept = [s.value for v in self.variants for s in v.plan.saved]
        named = references([*(d for v in self.variants for d in derivatives(v)), *kept])
        return [h.name for h in spec.hyperparameters if program.symbols[h.name] in used or h.name in named]

    @cached_property
    def absences_on_ctx(self) -> list[str]:
        """Optional tensors whose absence backward and jvp must know."""
        used = conditions(self.operation.derivative_body)
        return [t.name for t in self.spec.tensors if absent(t.name) in used]


def _multiplies(node: Expr) -> bool:
    """Whether an operation wants operands of equal dtypes: a product or a convolution."""
    row = TENSOR_OPS.get(node.op)
    return row is not None and row.linear and not row.recompute


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


def references(values: Iterable[Expr]) -> frozenset[str]:
    """The hyperparameters that are attributes of tensor operations, such as a `dim`."""
    found: set[str] = set()
    for node in topological(*values):
        for _, value in node.attrs:
            found.update(v.name for v in (value if isinstance(value, tuple) else (value,)) if isinstance(v, Ref))
    return frozenset(found)


def conditions(body: Body) -> frozenset[Expr]:
    """The symbols of the Python conditions in a tree of variants."""
    if isinstance(body, Variant):
        return frozenset()
    then, otherwise = conditions(body.then), conditions(body.otherwise)  # type: ignore[arg-type]
    return body.condition.symbols | then | otherwise


def branches(body: Body, leaf: Callable[[Variant], list[str]], text: Callable[[Expr], str]) -> list[str]:
    """Source lines: `leaf` of each variant under Python's if, elif and else; what all begin with stands before."""
    if isinstance(body, Variant):
        return leaf(body)
    blocks: list[tuple[str, list[str]]] = []  # condition, lines; the last condition is empty
    tests: list[Expr] = []
    node: Body = body
    while isinstance(node, Split):
        tests.append(node.condition)
        blocks.append((text(node.condition), branches(node.then, leaf, text)))  # type: ignore[arg-type]
        node = node.otherwise  # type: ignore[assignment]
    rest = leaf(node)
    if _exclude_each_other(tests):
        blocks = [b for b in blocks if b[1] != rest]
    blocks.append(("", rest))
    shared = _common_start([lines for _, lines in blocks])
    return [*blocks[0][1][:shared], *_chain([(c, lines[shared:]) for c, lines in blocks])]


def _exclude_each_other(tests: list[Expr]) -> bool:
    """Whether at most one of the conditions holds: they compare one hyperparameter with different texts."""
    return all(t.op == "eq" and t.args[1].op == "text" and t.args[0] is tests[0].args[0] for t in tests)


def _common_start(blocks: list[list[str]]) -> int:
    """How many whole statements all blocks begin with."""
    count = 0
    for lines in zip(*blocks, strict=False):
        if len(set(lines)) > 1:
            break
        count += 1
    while count and any(len(b) > count and b[count].startswith((" ", "else", "elif")) for b in blocks):
        count -= 1
    return count


def _chain(blocks: list[tuple[str, list[str]]]) -> list[str]:
    """if, elif and else; without else after a return."""
    blocks = [(c, lines) for c, lines in blocks if lines or c]
    if not any(lines for _, lines in blocks):
        return []
    if not blocks[-1][1]:
        blocks.pop()
    lines: list[str] = []
    word = "if"
    for condition, block in blocks:
        if not condition and word == "if":
            lines += block
            continue
        lines.append(f"{word} {condition}:" if condition else "else:")
        lines += _indented(block or ["pass"])
        leaves = word == "if" and bool(block) and block[-1].startswith(("return", "raise"))
        word = "if" if leaves else "elif"
    return lines


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _roundings(form: Expr, at_hand: frozenset[Expr] = frozenset()) -> int:
    """How many operations of a form round, beside those whose values are at hand."""
    lowered, *known = machine([form, *at_hand])
    leaves = frozenset(known)
    return sum(
        2 if _rounds_inside(n) else 1
        for n in topological(lowered, leaves=leaves)
        if n not in leaves and n.args and not n.is_static and not n.is_boolean and not _is_exact(n)
    )


def _rounds_inside(node: Expr) -> bool:
    """Whether torch's operation on half precision rounds more than its result."""
    if node.op == "pow":
        return node.args[1].number not in _ONE_ROUNDING
    return node.op in _SEVERAL_ROUNDINGS or (node.op == "einsum" and len(node.args) > 2)


def _is_narrow(scalar: Expr) -> bool:
    """Whether a Python number is surely one of half precision, too, so that torch does not round it."""
    n = scalar.number
    if n is None:
        return scalar in (OO, -OO)
    return max(abs(n.numerator), n.denominator) <= _INTEGERS and n.denominator & (n.denominator - 1) == 0


def _is_exact(node: Expr) -> bool:
    """Multiplication by a power of two, and operations that only move elements; a sum of products rounds them first.

    A fraction of an integer is a float in torch, and wider than half precision.
    """
    if node.op in _EXACT:
        return all(a.is_boolean or _is_narrow(a) for a in node.args if a.is_static)
    if node.op == "sum_to" and is_product(node.args[0]):
        return False
    if node.op in _MOVES or (node.op in TENSOR_OPS and TENSOR_OPS[node.op].cost == 0):
        return True
    if node.op != "mul":
        return False
    factor = node.args[0].number
    if factor is None or (factor.denominator != 1 and any(t["kind"] == "int_tensor" for t in node.tensors)):
        return False
    return abs(factor.numerator) & (abs(factor.numerator) - 1) == 0
