"""What torch has as one operation already: found by the formula, not by the name of the operation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from types import MappingProxyType
from typing import Any

from symgrad.errors import SpecError
from symgrad.ops.functions import FUNCTIONS
from symgrad.ops.tensors import TENSOR_OPS
from symgrad.parse import Program, parse_formulas
from symgrad.spec import Formula, Output

__all__ = ["Native", "native"]


@dataclass(frozen=True)
class Native:
    """A function of torch by its full name, and the keywords with which it takes the tensors of an operation."""

    name: str
    keywords: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def __str__(self) -> str:
        given = ", ".join(f"{key}={value!r}" for key, value in self.keywords.items())
        return f"{self.name}(..., {given})" if given else self.name

    def load(self) -> Callable[..., Any]:
        """The function, with these keywords. Raises ImportError and AttributeError where torch does not have it."""
        module, _, name = self.name.rpartition(".")
        function = getattr(import_module(module), name)
        return lambda *tensors: function(*tensors, **self.keywords)


_F = "torch.nn.functional"
# Formulas in x and y, in this order, and what computes them.
_TABLE = (
    ("x * sigmoid(x)", Native(f"{_F}.silu")),
    ("gelu(x)", Native(f"{_F}.gelu")),
    ("gelu(x, approximate='tanh')", Native(f"{_F}.gelu", {"approximate": "tanh"})),
    ("x * tanh(softplus(x))", Native(f"{_F}.mish")),
    ("x / (1 + abs(x))", Native(f"{_F}.softsign")),
    ("x - tanh(x)", Native(f"{_F}.tanhshrink")),
    ("clamp(x, 0, 6)", Native(f"{_F}.relu6")),
    ("clamp(x + 3, 0, 6) / 6", Native(f"{_F}.hardsigmoid")),
    ("x * clamp(x + 3, 0, 6) / 6", Native(f"{_F}.hardswish")),
    ("log(x / (1 - x))", Native("torch.logit")),
    ("sqrt(x**2 + y**2)", Native("torch.hypot")),
    ("(x - y)**2", Native(f"{_F}.mse_loss", {"reduction": "none"})),
    ("mean((x - y)**2)", Native(f"{_F}.mse_loss")),
    ("abs(x - y)", Native(f"{_F}.l1_loss", {"reduction": "none"})),
    ("mean(abs(x - y))", Native(f"{_F}.l1_loss")),
    ("softmax(x, dim=-1)", Native("torch.softmax", {"dim": -1})),
    ("log_softmax(x, dim=-1)", Native("torch.log_softmax", {"dim": -1})),
    ("logsumexp(x, dim=-1)", Native("torch.logsumexp", {"dim": -1})),
    ("sum(x * y, dim=-1)", Native("torch.linalg.vecdot")),
)


def native(program: Program) -> Native | None:
    """What torch has for the whole of an operation with the same derivatives; None where nothing is known.

    An operation with hyperparameters, several outputs or a gradient of its own is its own.
    """
    spec = program.spec
    if spec.hyperparameters or spec.gradients or len(spec.outputs) != 1:
        return None
    (value,) = program.outputs.values()
    tensors = [t.name for t in spec.tensors]
    row = FUNCTIONS.get(value.op)
    if row is not None and value.op not in TENSOR_OPS and list(value.args) == [program.symbols[t] for t in tensors]:
        name, _, rest = row.torch.partition("(")
        if name.startswith("torch.") and rest == ", ".join(f"{{{k}}}" for k in range(len(tensors))) + ")":
            return Native(name)
    if len(tensors) > 2:
        return None
    names = dict(zip("xy", tensors, strict=False))
    output = spec.outputs[0]
    for text, found in _TABLE:
        own = re.sub(r"\b[xy]\b", lambda match: names.get(match[0], match[0]), text)
        if set(re.findall(r"\b[xy]\b", text)) != set(names):
            continue
        formula = Formula(output.name, own, output.location)
        try:
            other = parse_formulas(replace(spec, outputs=(Output(formula),), let=()))
        except SpecError:
            continue
        if other.outputs[output.name] is value:
            return found
    return None
