"""What one row of the function table holds."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from symgrad.ir.expr import Expr


@dataclass(frozen=True)
class Function:
    """One pointwise function, everything symgrad knows about it.

    Attributes:
        name: the operation's name in the intermediate representation.
        parameters: names of its arguments, accepted as keywords.
        torch, python: format strings for tensors and for Python scalars, each a call or in parentheses.
        partials: derivatives with respect to each argument, as expressions in the arguments.
        meaning: the value on mpmath numbers; NaN where undefined over the reals.
        aliases: other accepted spellings.
        cost: time of one eager pass over memory, in units of an addition.
        saves: what torch's own autograd keeps: `x` the arguments (`d`: if the last one has a gradient),
            `y` the result, `m` a mask.
        domain: open bounds of the argument that may leave them (the last one, by convention).
        sample: where tests sample the arguments.
        safe: an argument at which value and derivatives are finite, for the guard of dead branches; None where
            the function is finite everywhere.
        tensor_args: whether torch wants tensors for all arguments.
        of_floats: whether torch has it for no integers.
        definition: builds the expression where it is made of other functions, always or for some arguments.
        internal: whether only the compiler writes it, and no spec.
        sympy: name of the SymPy class of the same meaning and the same arguments.
        opened: the function by more elementary ones, for SymPy, where SymPy has no class for it.
        in_sympy: from the module sympy and arguments to SymPy's expression, where neither of these can say it.
        by_autograd: spelling in torch that autograd differentiates, where torch's own function has no derivative.
        introduced: spelling in torch of what backward reads, in operations whose spec has other functions: torch's own
            derivative of it loses digits that those keep.
        jumps: from the arguments, what the function jumps at the zeros of; None where it is continuous.
        orders: how many first arguments are orders, with no derivative: numbers and hyperparameters, no tensors.
        targets: its spelling by the name of a target (`cpp`, `triton`, `jax`, `mlx`) whose own table has none.
        in_half: whether torch has it for half precision on every device, and rounds nothing there but the result.
    """

    name: str
    parameters: tuple[str, ...]
    torch: str = ""
    python: str = ""
    partials: Callable[..., tuple[Expr, ...]] | None = None
    meaning: Callable[..., Any] | None = None
    aliases: tuple[str, ...] = ()
    cost: float = 1.0
    saves: str = "x"
    domain: tuple[float, float] = (-math.inf, math.inf)
    sample: tuple[float, float] = (-3.0, 3.0)
    safe: Fraction | None = None
    tensor_args: bool = False
    of_floats: bool = False
    definition: Callable[..., Expr] | None = None
    internal: bool = False
    sympy: str = ""
    opened: Callable[..., Expr] | None = None
    in_sympy: Callable[..., Any] | None = None
    by_autograd: str = ""
    introduced: str = ""
    jumps: Callable[..., Expr] | None = None
    orders: int = 0
    in_half: bool = True
    targets: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def required(self) -> int:
        """How many arguments must be given: those for which the definition has no default."""
        if self.definition is None:
            return len(self.parameters)
        declared = inspect.signature(self.definition).parameters.values()
        return sum(parameter.default is inspect.Parameter.empty for parameter in declared)


def of_one(module: str, name: str, partial: Callable[[Expr], Expr], **facts: Any) -> Function:
    """The row of a function of one argument that torch has for floats alone, as a function of a module."""
    return Function(
        name,
        ("x",),
        torch=f"{module}.{name}({{0}})",
        python=f"rt.number({module}.{name}, {{0}})",
        partials=lambda x: (partial(x),),
        in_half=False,
        of_floats=True,
        **facts,
    )
