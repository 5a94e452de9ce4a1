"""The keys of a spec: what each holds, and what it means. One table, read by parser and JSON schema."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Any

from symgrad.resources import TARGETS
from symgrad.spec import yaml_source as yaml
from symgrad.spec.interval import BOUND, INTERVAL, Interval, parse_interval
from symgrad.spec.model import FORMS, Extern, Options, Output, Tensor
from symgrad.spec.names import OP_PATTERN, normal
from symgrad.spec.readers import Either, Key, ListOf, NamesTo, OneOf, Path, Plain, Record, Report, Shorthand

__all__ = ["SPEC", "finite", "integer"]

_MAX_FORMULA = 10_000  # characters


def finite(value: object) -> int | float | None:
    """``value`` if it is a number that a float can hold (an int of over 64 bits as a float), else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not abs(value) <= sys.float_info.max:  # so written, NaN is refused too
        return None
    return value if isinstance(value, float) or integer(value) is not None else float(value)


def integer(value: object) -> int | None:
    """``value`` if it is an integer of 64 bits, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


def _at_least(least: int, value: object) -> int | None:
    number = integer(value)
    return number if number is not None and number >= least else None


def _text(scalar: yaml.Scalar) -> str | None:
    return scalar.value if isinstance(scalar.value, str) else None


def _boolean(scalar: yaml.Scalar) -> bool | None:
    return scalar.value if isinstance(scalar.value, bool) else None


def _literal(scalar: yaml.Scalar) -> bool | int | float | str | None:
    value = scalar.value
    return value if isinstance(value, (bool, str)) or finite(value) is not None else None


def _number_or_truth(value: object) -> int | float | None:
    return value if isinstance(value, bool) else finite(value)


def _formula(scalar: yaml.Scalar) -> yaml.Scalar | None:
    empty = scalar.value is None or not scalar.text.strip()
    return None if empty or len(scalar.text) > _MAX_FORMULA else scalar


def _dim(scalar: yaml.Scalar) -> int | str | None:
    if scalar.text == "...":
        return scalar.text
    return normal(scalar.value) if isinstance(scalar.value, str) else _at_least(1, scalar.value)


@dataclass(frozen=True)
class _Domain:
    """An interval as a text, or a list of two bounds for a closed one."""

    def read(self, node: yaml.Node, path: Path, report: Report) -> Interval | None:
        text = node.text if isinstance(node, yaml.Scalar) else ""
        if isinstance(node, yaml.Sequence):
            text = ", ".join(item.text for item in node.items if isinstance(item, yaml.Scalar))
            text = f"[{text}]" if len(node.items) == 2 else ""
        try:
            return parse_interval(text)
        except ValueError as error:
            if not isinstance(node, yaml.Refused):
                report.at_value(path, str(error))
            return None

    def schema(self) -> dict[str, Any]:
        bound = {"anyOf": [{"type": "number"}, {"type": "string", "pattern": f"^{BOUND}$"}]}
        return {
            "anyOf": [
                {"type": "string", "pattern": f"^{INTERVAL}$"},
                {"type": "array", "items": bound, "minItems": 2, "maxItems": 2},
            ]
        }


# --------------------------------------------------------------------------- scalars

_SCALAR_TYPES = ["string", "number", "boolean"]

TEXT = Plain("a text", {"type": "string"}, _text)
BOOLEAN = Plain("true or false", {"type": "boolean"}, _boolean)
NUMBER = Plain("a finite number", {"type": "number"}, lambda scalar: finite(scalar.value))
NUMBER_OR_TRUTH = Plain(
    "a finite number, true or false", {"type": ["number", "boolean"]}, lambda scalar: _number_or_truth(scalar.value)
)
LITERAL = Plain("a finite number, true, false or a text", {"type": _SCALAR_TYPES}, _literal)
FORMULA = Plain(f"a formula of at most {_MAX_FORMULA} characters", {"type": _SCALAR_TYPES}, _formula)
NAME = Plain("the name of a tensor", {"type": "string"}, lambda scalar: normal(scalar.text))
OP = Plain("a text", {"type": "string", "pattern": OP_PATTERN}, _text)
SIZE = Plain(
    "a size, 0 or more",
    {"type": "integer", "minimum": 0},
    lambda scalar: _at_least(0, scalar.value),
)
_QUALIFIED = r"(?!(aten|prims?)::)[A-Za-z_][A-Za-z0-9_]*::[A-Za-z_][A-Za-z0-9_]*"
QUALIFIED = Plain(
    "a name in a namespace that is not one of torch's own, such as mylib::my_op",
    {"type": "string", "pattern": f"^{_QUALIFIED}$"},
    lambda scalar: scalar.text if re.fullmatch(_QUALIFIED, scalar.text) else None,
)
DIM = Plain(
    "a positive size, a name or '...'",
    {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}]},
    _dim,
)
DOMAIN = _Domain()
DOC = Key(TEXT, "What it is, for the docstring.")

# --------------------------------------------------------------------------- records

TENSOR = Record(
    {
        "grad": Key(BOOLEAN, "false: the tensor is never differentiated (labels, masks, indices)."),
        "default": Key(
            NUMBER_OR_TRUTH,
            "The tensor may be None; the formula then holds with this number or truth value, and there is no gradient.",
        ),
        "shape": Key(
            ListOf(DIM, "a list of dimensions"),
            "Dimensions, checked at the call: sizes, or names that agree over all tensors; '...' first "
            "stands for any leading ones. In formulas a name is the size of its dimension. Without a shape the tensor "
            "broadcasts with the others.",
        ),
        "domain": Key(
            DOMAIN, 'The values it may have, such as "(0, oo)": for simplification and sampling; not checked.'
        ),
        "dtype": Key(OneOf(("float", "int", "bool")), "The kind of its elements; only float has a gradient."),
        "doc": DOC,
    },
    "a mapping of keys such as 'grad' or 'domain', or nothing",
    model=Tensor,
    or_nothing=True,
)

HYPERPARAMETER = Record(
    {
        "type": Key(OneOf(("float", "int", "bool", "str")), "Its Python type; if absent, that of the default."),
        "default": Key(LITERAL, "Its value where the caller gives none; if absent, the caller must."),
        "domain": Key(DOMAIN, 'The values it may have, such as "(0, oo)"; checked at the call.'),
        "choices": Key(ListOf(LITERAL, "a list of values", least=1), "All its values; checked at the call."),
        "doc": DOC,
    },
    "a value, or a mapping of keys such as 'type' and 'default'",
)

OUTPUT = Record(
    {
        "expr": Key(FORMULA, "The formula of the output.", required=True),
        "grad": Key(BOOLEAN, "false: the output is marked non-differentiable."),
        "doc": DOC,
    },
    "a formula, or a mapping with the key 'expr'",
    model=Output,
)

PARAMETER = Record(
    {
        "init": Key(NUMBER, "Its initial value.", required=True),
        "shape": Key(ListOf(DIM, "a list of sizes"), "Its shape: sizes, or names of constructor arguments."),
    },
    "an initial value, or a mapping of 'init' and 'shape'",
)

MODULE = Record(
    {
        "parameters": Key(
            NamesTo(Shorthand("init", PARAMETER), "a mapping of tensor names to initial values"),
            "The tensors that the module owns, with their initial values.",
        ),
    },
    "a mapping with the key 'parameters'",
    or_nothing=True,
)

_POLICY = OneOf(("auto", "memory", "speed"))
_PACKED = NamesTo(OneOf(tuple(FORMS)), "auto, memory, speed, or a mapping of names to float8, int8 or bit")

OPTIONS = Record(
    {
        "save": Key(
            Either(_POLICY, _PACKED),
            "What backward finds saved: memory saves the least, speed recomputes the least; auto lies between. Or a "
            "mapping of names to float8, int8 or bit, in which these values are kept.",
        ),
        "double_backward": Key(BOOLEAN, "false: differentiating the gradient raises an error."),
        "inplace": Key(NAME, "Also write <op>_, which overwrites this tensor."),
        "accumulate": Key(
            OneOf(("float32", "same")), "The type of arithmetic for half-precision inputs; same: their own."
        ),
        "precision": Key(
            OneOf(("auto", "strict", "fast")),
            "How errors are judged: auto forgives what an ulp in each input would change; strict half an ulp in tensors"
            " alone; fast never computes in float64, and takes the cheapest form that keeps most digits.",
        ),
        "align": Key(
            OneOf(("names", "positions")),
            "names: shapes that do not meet from the right do so by the names of their dimensions; positions: they meet"
            " from the right alone, as in torch.",
        ),
        "kernels": Key(
            OneOf(("auto", "all", "none"), ((True, "all"), (False, "none"))),
            "auto: fused passes in C++ serve calls of 65536 elements or more; all: every call, in Triton too.",
        ),
        "targets": Key(
            ListOf(OneOf(TARGETS), "a list of targets, such as [torch, jax]", least=1),
            "The frameworks that modules are written for; torch alone if it is left out.",
        ),
        "library": Key(
            QUALIFIED,
            "Also register the operation with torch.library under this name: torch.export then keeps it as one node.",
        ),
    },
    "a mapping of keys such as 'save' or 'inplace'",
    model=Options,
    or_nothing=True,
)

_DOTTED = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+"
FUNCTION = Plain(
    "a function as package.module.function",
    {"type": "string", "pattern": f"^{_DOTTED}$"},
    lambda scalar: scalar.text if re.fullmatch(_DOTTED, scalar.text) else None,
)

EXTERN = Record(
    {
        "forward": Key(FUNCTION, "Called with tensors and hyperparameters in order, returns the outputs."),
        "backward": Key(
            FUNCTION,
            "Called with cotangents, tensors and hyperparameters in order, returns the gradients that there are.",
        ),
    },
    "a function as package.module.function, or a mapping of 'forward' and 'backward'",
    model=Extern,
)

TEST = Record(
    {
        "shapes": Key(
            NamesTo(ListOf(SIZE, "a list of sizes"), "a mapping of tensor names to lists of sizes"),
            "The shape of each tensor in the generated test.",
        ),
        "ranges": Key(
            NamesTo(ListOf(NUMBER, "two numbers", least=2), "a mapping of tensor names to [low, high]"),
            "Where the elements of each tensor are drawn from, as [low, high].",
        ),
        "values": Key(
            NamesTo(
                ListOf(LITERAL, "a list of values", least=1),
                "a mapping of hyperparameter names to lists of values",
            ),
            "The values of each hyperparameter that are tested.",
        ),
    },
    "a mapping of 'shapes', 'ranges' or 'values'",
    or_nothing=True,
)

MOST_ROUNDS = 100
_ROUNDS = Plain(
    f"a whole number from 1 to {MOST_ROUNDS}",
    {"type": "integer", "minimum": 1, "maximum": MOST_ROUNDS},
    lambda scalar: found if (found := _at_least(1, scalar.value)) is not None and found <= MOST_ROUNDS else None,
)

_FORMULAS = NamesTo(FORMULA, "a mapping of names to formulas")

REPEATED = Record(
    {
        "repeat": Key(_ROUNDS, "How many times.", required=True),
        "let": Key(_FORMULAS, "What is calculated in each round.", required=True),
    },
    "a formula, or a mapping of 'repeat' and 'let'",
)

SPEC = Record(
    {
        "op": Key(OP, "The operation in snake_case; names module, function and classes.", required=True),
        "summary": Key(TEXT, "One line on what the operation is."),
        "reference": Key(TEXT, "Where the formula comes from: a paper, a book, a page."),
        "doc": Key(TEXT, "More about the operation."),
        "tensors": Key(
            NamesTo(TENSOR, "a mapping of names to nothing or to mappings"),
            "The tensors, in the order of the arguments.",
            required=True,
        ),
        "hyperparameters": Key(
            NamesTo(Shorthand("default", HYPERPARAMETER), "a mapping of names to defaults or to mappings"),
            "Python values that are no tensors: the arguments after the tensors, as keywords.",
        ),
        "let": Key(
            NamesTo(Either(FORMULA, REPEATED), "a mapping of names to formulas"),
            "Named intermediates, in order; each may use all that stands above it. `{repeat: 10, let: {...}}` "
            "calculates a set of them in turn, each round from the values of the one before.",
        ),
        "outputs": Key(
            NamesTo(Shorthand("expr", OUTPUT), "a mapping of names to formulas"),
            "The results, in order.",
            required=True,
        ),
        "gradients": Key(
            _FORMULAS,
            "Gradients to use in place of the derived ones, by tensor; each may use grad_<output>, the "
            "outputs and everything that the outputs may use. 0 stops the gradient.",
        ),
        "module": Key(MODULE, "Also write a torch.nn.Module; hyperparameters become constructor arguments."),
        "extern": Key(
            Shorthand("forward", EXTERN),
            "Functions of one's own for plain calls of forward and of backward. The formula stays the reference: tests "
            "hold them against it, and it serves everywhere else.",
        ),
        "options": Key(OPTIONS, "How the code is written."),
        "test": Key(TEST, "What the generated test samples; everything has a default."),
    },
    "a mapping",
)
