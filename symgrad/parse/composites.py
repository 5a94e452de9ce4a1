"""Functions of torch that are formulas of others: each is a row, written in the language itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from symgrad.ir.expr import ZERO
from symgrad.ops.tensors.row import is_number
from symgrad.ops.tensors.shapes import extent
from symgrad.parse.arguments import MOST_DIMS, bind, is_none, whole_number
from symgrad.parse.faults import FormulaError
from symgrad.parse.scope import Bound
from symgrad.parse.text import read
from symgrad.spec.python_names import shape_of

if TYPE_CHECKING:
    from symgrad.parse.build import Builder

__all__ = ["COMPOSITES", "Composite", "composite", "composite_call"]


def _cross() -> str:
    """The cross product along `dim`, which has three elements: another size does not unflatten so."""
    first = "(dim - 1 if dim < 0 else dim)"
    a, b = (f"chunk(unflatten({name}, dim, (3, 1)), 3, {first})" for name in ("input", "other"))
    parts = [f"{a}[{i}] * {b}[{k}] - {a}[{k}] * {b}[{i}]" for i, k in ((1, 2), (2, 0), (0, 1))]
    return f"flatten(cat([{', '.join(parts)}], {first}), {first}, {first} + 1)"


def _reduced(loss: str, **others: str) -> str:
    """A loss as torch reduces it."""
    ways = {"mean": "mean({0})", "sum": "sum({0})", **others}
    return "".join(f"{way.format(loss)} if reduction == '{word}' else " for word, way in ways.items()) + loss


# By signatures: what has a default is a formula too, of the arguments before it; one of '...' must be given all the
# same; `normalized_shape` stands for the last dimensions, as many as it has sizes; what comes after '*' is given by its
# name, as the order of the others is not torch's. Where torch has other slopes than the formula (binary_cross_entropy,
# gaussian_nll_loss) there is no row.
COMPOSITES: Mapping[str, str | tuple[str, ...]] = {
    # products
    **{
        f"{name}(input, {other})": f"input @ {other}"
        for name, other in {"mm": "mat2", "bmm": "mat2", "mv": "vec", "dot": "tensor"}.items()
    },
    "linear(input, weight, bias=0)": "input @ weight.mT + bias",
    **{
        f"{name}(input, {a}, {b}, *, beta=1, alpha=1)": f"beta * input + alpha * ({a} @ {b})"
        for name, a, b in (("addmm", "mat1", "mat2"), ("addmv", "mat", "vec"), ("baddbmm", "batch1", "batch2"))
    },
    "cross(input, other, dim=...)": _cross(),
    # arithmetic and comparisons under names
    "add(input, other, *, alpha=1)": "input + alpha * other",
    **{f"{name}(input, other, *, alpha=1)": "input - alpha * other" for name in ("sub", "subtract")},
    **{f"{name}(input, other)": "input * other" for name in ("mul", "multiply")},
    **{f"{name}(input, other)": "input / other" for name in ("div", "divide", "true_divide")},
    **{f"{name}(input)": "-input" for name in ("neg", "negative")},
    **{
        f"{name}(input, other)": f"input {operator} other"
        for name, operator in {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}.items()
    },
    "logical_and(input, other)": "input and other",
    "logical_or(input, other)": "input or other",
    "logical_xor(input, other)": "Xor(input, other)",
    "logical_not(input)": "not input",
    "clamp_min(input, min)": "clamp(input, min=min)",
    "clamp_max(input, max)": "clamp(input, max=max)",
    "bool(input)": "input != 0",
    "masked_fill(input, mask, value)": "where(mask, value, input)",
    # constants in the shape of a tensor
    "zeros_like(input)": "where(True, 0, input)",
    "ones_like(input)": "where(True, 1, input)",
    "full_like(input, fill_value)": "where(True, fill_value, input)",
    "expand_as(input, other)": "where(True, input, other)",
    "linspace(start, end, steps)": "start + arange(steps) * ((end - start) / max(steps - 1, 1))",
    # along a dimension
    "argsort(input, dim=-1, descending=False)": "sort(input, dim, descending).indices",
    "vector_norm(input, ord=2, dim=None, keepdim=False)": "norm(input, ord, dim, keepdim)",
    "dist(input, other, p=2)": "norm(input - other, p)",
    **{
        f"{name}_mean(input, dim=None, *, correction=1, keepdim=False, unbiased=None)": (
            f"{name}(input, dim, correction, keepdim, unbiased)",
            "mean(input, dim, keepdim)",
        )
        for name in ("var", "std")
    },
    "glu(input, dim=-1)": "chunk(input, 2, dim)[0] * sigmoid(chunk(input, 2, dim)[1])",
    "softmin(input, dim)": "softmax(-input, dim)",
    "swapdims(input, dim0, dim1)": "transpose(input, dim0, dim1)",
    "swapaxes(input, axis0, axis1)": "transpose(input, axis0, axis1)",
    "t(input)": "input.mT",
    # layers
    "normalize(input, p=2, dim=1, eps=1e-12)": "input / clamp(norm(input, p, dim, keepdim=True), min=eps)",
    "layer_norm(input, normalized_shape, weight=1, bias=0, eps=1e-5)": (
        "(input - mean(input, normalized_shape, keepdim=True))"
        " * rsqrt(var(input, normalized_shape, correction=0, keepdim=True) + eps) * weight + bias"
    ),
    "rms_norm(input, normalized_shape, weight=1, eps=...)": (
        "input * rsqrt(mean(input * input, normalized_shape, keepdim=True) + eps) * weight"
    ),
    "scaled_dot_product_attention(query, key, value, attn_mask=0, dropout_p=0, is_causal=False, *, "
    "scale=1/sqrt(query.shape[-1]))": (
        "softmax(where(is_causal and arange(query.shape[-2])[:, None] < arange(key.shape[-2]), -oo,"
        " query @ key.mT * scale + attn_mask), -1) @ value"
    ),
    # losses
    "mse_loss(input, target, *, reduction='mean')": _reduced("(input - target)**2"),
    "l1_loss(input, target, *, reduction='mean')": _reduced("abs(input - target)"),
    "smooth_l1_loss(input, target, *, reduction='mean', beta=1)": _reduced(
        "where(abs(input - target) < beta, (input - target)**2 / (2 * beta if beta != 0 else 1),"
        " abs(input - target) - beta / 2)"
    ),
    "huber_loss(input, target, *, reduction='mean', delta=1)": _reduced(
        "where(abs(input - target) <= delta, (input - target)**2 / 2, delta * (abs(input - target) - delta / 2))"
    ),
    "binary_cross_entropy_with_logits(input, target, *, weight=1, reduction='mean', pos_weight=1)": _reduced(
        "weight * ((1 - target) * input + (1 + (pos_weight - 1) * target) * softplus(-input))"
    ),
    "kl_div(input, target, *, reduction='mean', log_target=False)": _reduced(
        "(exp(target) * (target - input) if log_target else xlogy(target, target) - target * input)",
        batchmean="sum({0}) / input.shape[0]",
    ),
    "poisson_nll_loss(input, target, *, log_input=True, eps=1e-8, reduction='mean')": _reduced(
        "(exp(input) - target * input if log_input else input - target * log(input + eps))"
    ),
    "soft_margin_loss(input, target, *, reduction='mean')": _reduced("softplus(-target * input)"),
    "hinge_embedding_loss(input, target, *, margin=1, reduction='mean')": _reduced(
        "(where(target != 1, clamp(margin - input, min=0), 0) + where(target != -1, input, 0))"
    ),
    "margin_ranking_loss(input1, input2, target, *, margin=0, reduction='mean')": _reduced(
        "clamp(margin - target * (input1 - input2), min=0)"
    ),
    "pairwise_distance(x1, x2, p=2, eps=1e-6, keepdim=False)": "norm(x1 - x2 + eps, p, -1, keepdim)",
    "triplet_margin_loss(anchor, positive, negative, *, margin=1, p=2, eps=1e-6, reduction='mean')": _reduced(
        "clamp(margin + norm(anchor - positive + eps, p, -1) - norm(anchor - negative + eps, p, -1), min=0)"
    ),
}

_MAY_BE_NONE = frozenset({"weight", "bias", "attn_mask", "pos_weight", "scale"})
_OF_TRUTHS = {"attn_mask": "where(attn_mask, 0, -oo)"}  # what an argument means where it is of truth values


@dataclass(frozen=True)
class Composite:
    """One row as it is called: the parameters, those that must be given, formulas of the others, and its own."""

    signature: str
    parameters: tuple[str, ...]
    positional: int
    required: tuple[str, ...]
    defaults: Mapping[str, str]
    formulas: tuple[str, ...]


@cache
def _signatures() -> Mapping[str, str]:
    return {signature.partition("(")[0]: signature for signature in COMPOSITES}


@cache
def composite(name: str) -> Composite | None:
    """The row of a function, None where there is none."""
    signature = _signatures().get(name)
    if signature is None:
        return None
    function = ast.parse(f"def {signature}: ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    arguments, formula = function.args, COMPOSITES[signature]
    positional = [a.arg for a in arguments.args]
    given = dict(zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True))
    given |= {a.arg: d for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None}
    names = (*positional, *(a.arg for a in arguments.kwonlyargs))
    defaults = {name: text for name, default in given.items() if (text := ast.unparse(default)) != "..."}
    required = tuple(n for n in names if n not in defaults)
    formulas = (formula,) if isinstance(formula, str) else formula
    return Composite(signature, names, len(positional), required, defaults, formulas)


def composite_call(builder: Builder, name: str, row: Composite, node: ast.Call) -> list[Bound]:
    """The results of a call: those of the formulas, in which the arguments are names."""
    if row.positional < min(len(row.parameters), len(node.args)):
        builder.fail(node.args[row.positional], f"{row.signature} takes this by its name")
    given = bind(builder, name, node, row.parameters, 0)
    for parameter in row.required:
        if parameter not in given:
            builder.fail(node, f"{row.signature} lacks its argument {parameter!r}")
    given = {p: a for p, a in given.items() if not (is_none(a) and _may_be_none(row, p))}
    texts = {p: d for p, d in row.defaults.items() if d == "None" and p not in given}
    texts |= {p: dims for p, a in given.items() if (dims := _dims(builder, p, a))}
    values = builder.each(lambda p: builder.isolated(builder.value, given[p]), [p for p in given if p not in texts])
    names = {p: Bound(*found) for p, found in zip((p for p in given if p not in texts), values, strict=True)}
    if names.get("dropout_p", Bound(ZERO)).expr is not ZERO:
        builder.fail(given["dropout_p"], "random numbers have a seed; write dropout(x, p, seed)")
    truths = [p for p, bound in names.items() if p in _OF_TRUTHS and bound.expr is not None and bound.expr.is_boolean]
    names |= {p: _evaluated(builder, given[p], _OF_TRUTHS[p], names) for p in truths}
    for parameter, default in row.defaults.items():
        if parameter not in (*names, *texts):
            names[parameter] = _evaluated(builder, node, default, names)
    _check_words(builder, row, given, names)
    pattern = re.compile(rf"\b({'|'.join(texts)})\b") if texts else None
    formulas = [pattern.sub(lambda m: texts[m[0]], f) if pattern else f for f in row.formulas]
    return [_evaluated(builder, node, formula, names) for formula in formulas]


def _may_be_none(row: Composite, parameter: str) -> bool:
    return parameter in row.defaults and (parameter in _MAY_BE_NONE or row.defaults[parameter] == "None")


def _dims(builder: Builder, parameter: str, node: ast.expr) -> str:
    """Dimensions that the formula has as they are written; those of a `normalized_shape` are the last ones."""
    if parameter == "normalized_shape":
        return str(tuple(range(-_length(builder, node), 0)))
    items = [whole_number(item) for item in node.elts] if isinstance(node, ast.Tuple | ast.List) else []
    return str(tuple(items)) if items and None not in items else ""


def _check_words(builder: Builder, row: Composite, given: Mapping[str, ast.expr], names: Mapping[str, Bound]) -> None:
    """Refuse a reduction that the formula does not know."""
    known = {*re.findall(r"== '(\w+)'", row.formulas[0]), "none"}
    value = names["reduction"].expr if "reduction" in given else None
    if value is None:
        return
    words = {value["value"]} if value.op == "text" else set(builder.scope.choices.get(value, ("any word",)))
    if not words <= known:
        told = f"'reduction' is one of {', '.join(sorted(known))}, or a hyperparameter with these choices"
        builder.fail(given["reduction"], told)


def _evaluated(builder: Builder, node: ast.AST, formula: str, names: Mapping[str, Bound]) -> Bound:
    """The value of a formula of the table; what is wrong in it is wrong with the call."""
    outer = builder.scope
    scope = replace(outer, names=dict(names), choices={}, elsewhere={}, outputs=(), may_widen=False)
    inner = type(builder)(read(formula), scope)
    try:
        found = inner.result()
    except FormulaError as error:
        builder.fail(node, error.faults[0].message)
    builder.orders |= inner.orders
    return found


def _length(builder: Builder, shape: ast.expr) -> int:
    """How many dimensions a shape has: `(H, W)`, `x.shape[-2:]`, `x.shape[1:]` of a declared shape, `C`."""
    whole = shape_of(shape)
    if whole is not None:
        shape = ast.Subscript(shape, ast.Slice())
    if not isinstance(shape, ast.Subscript) or not isinstance(shape.slice, ast.Slice):
        items = shape.elts if isinstance(shape, ast.Tuple | ast.List) else [shape]
        for item in items:
            if not is_number(builder.isolated(builder.value, item)[0]):
                builder.fail(item, "the last dimensions are told by their sizes")
        return len(items)
    of, first = shape_of(shape.value), whole_number(shape.slice.lower or ast.Constant(0))
    known = None if of is None else extent(builder.scoped(of))
    if known is None or first is None or shape.slice.upper or shape.slice.step or (first >= 0 and not known.exact):
        builder.fail(shape, "the last dimensions are told from the end, as in x.shape[-1:]")
    if first < -MOST_DIMS:
        builder.fail(shape, f"a tensor has at most {MOST_DIMS} dimensions")
    return -first if first < 0 else len(known.dims) - first
