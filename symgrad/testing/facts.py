"""What is stated about an operation: its formula, where it is sampled, and what is promised."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any, Literal, TypeAlias

__all__ = ["Accuracy", "Case", "Input", "Residuals", "Settings", "Shape", "Shapes", "Subject"]

Shape: TypeAlias = "tuple[int, ...] | None"
"""The shape of a tensor; None where an optional tensor is not given."""
Shapes: TypeAlias = "tuple[Shape, ...]"
Settings: TypeAlias = Mapping[str, Any]
"""Values of the hyperparameters, by name, in the order in which ``Function.apply`` takes them."""
Residuals: TypeAlias = Mapping[str, tuple[str, ...]] | tuple[Mapping[str, tuple[str, ...]], ...]
"""What a call saves for backward: a name and the tensors whose gradients read it, for all settings or for each."""
Case: TypeAlias = "tuple[Shapes, Settings]"

_SPECIAL = (math.inf, -math.inf, 0.0, -0.0, 1e-40, -1e-40)
_BROADCAST: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((2, 3), (3,), (2, 1), ()),
    ((), (2,), (1,)),
    ((2, 1), (1, 2), (2,)),
    ((), ()),
    ((0, 3), (3,), (1,)),
)


@dataclass(frozen=True)
class Input:
    """One tensor argument.

    Values are drawn uniformly from ``low`` to ``high``: integers from the whole numbers below ``high``, truth values
    from both. ``grad`` says whether it is differentiated, ``optional`` whether it may be None. ``domain`` is where
    the formula holds. ``special`` are values at which the result must be a number wherever the reference has
    one: by default infinities, zeros and subnormal numbers in the domain. The suites for JAX and MLX read neither
    ``optional`` nor ``domain`` nor ``special``.
    """

    name: str
    low: float = -3.0
    high: float = 3.0
    dtype: Literal["float", "int", "bool"] = "float"
    grad: bool = True
    optional: bool = False
    domain: tuple[float, float] = (-math.inf, math.inf)
    special: tuple[float, ...] = _SPECIAL

    @property
    def differentiable(self) -> bool:
        """Whether it is a float that is differentiated."""
        return self.grad and self.dtype == "float"

    @property
    def special_values(self) -> tuple[float, ...]:
        """The special values that are in the domain."""
        low, high = self.domain
        return tuple(v for v in self.special if low <= v <= high) if self.dtype == "float" else ()


@dataclass(frozen=True)
class Accuracy:
    """True values of a quantity, and how well they must be met.

    ``quantity`` is the name of an output, ``"y"``, or of a derivative, ``"dy/dx"``. Each point has a value for
    each tensor, then each hyperparameter, the true value, and by how much an ulp in each input moves it.
    ``ulp`` and ``ulp64`` are the errors in float32 and float64 with correctly rounded elementary functions; those of
    torch are not: results may be off by twice that and 4 ulp, and by six times where it is 16 ulp or more.
    """

    quantity: str
    ulp: float
    ulp64: float
    points: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, eq=False)
class Subject:
    """An operation with all that the checks ask about it.

    ``call`` is what people call, with tensors by position and hyperparameters by name; ``function`` the
    torch.autograd.Function behind it, ``module`` the nn.Module, where there are such. ``composite`` is the
    formula in plain torch operations; ``reference``, where it is given, has the same values and is differentiated
    in its place.

    ``shapes`` holds, for each sample, the shape of each tensor. Without it tensors broadcast. ``large`` are shapes at
    which fused kernels are compared: tails of vectors, long rows, many rows. ``bad_shapes`` and ``refused``
    (name, value, type of the error) must be refused.

    ``fixed`` are outputs without a derivative. ``residuals`` says what a call saves for backward: a name and the
    tensors whose gradients read it, one mapping for all settings or one for each.

    Where gradients are not those of the formula, ``rule(*cotangents, *tensors, **hyperparameters)`` returns those of
    the ``overridden`` tensors in order. ``linear`` says whether it is linear in the cotangents, and so has a forward
    mode.
    """

    name: str
    call: Callable[..., Any]
    composite: Callable[..., Any]
    inputs: tuple[Input, ...]
    function: Any = None
    module: Any = None
    reference: Callable[..., Any] | None = None
    outputs: tuple[str, ...] = ("y",)
    fixed: tuple[str, ...] = ()
    shapes: tuple[Shapes, ...] = ()
    large: tuple[Shapes, ...] = ()
    settings: tuple[Settings, ...] = ({},)
    refused: tuple[tuple[str, Any, type[Exception]], ...] = ()
    bad_shapes: tuple[Shapes, ...] = ()
    accuracy: tuple[Accuracy, ...] = ()
    ones_shapes: Shapes = ()  # of the tensors at a point of `accuracy`, where 16 elements each do not fit
    residuals: Residuals | None = None
    kernel_residuals: int = 0  # the most tensors that fused kernels save beside these
    packed: Mapping[str, str] = field(default_factory=dict)  # values that are kept in fewer bits, with the form
    rule: Callable[..., Any] | None = None
    overridden: tuple[str, ...] = ()
    linear: bool = True
    double_backward: bool = True
    detached: bool = False  # the formula stops a gradient, which finite differences do not
    inplace: Callable[..., Any] | None = None
    inplace_of: str = ""  # the tensor that it overwrites
    parameters: Mapping[str, float] = field(default_factory=dict)  # of the module, with their initial values
    attributes: Mapping[str, str] = field(default_factory=dict)  # of the module, where they have other names
    constructor: Mapping[str, Any] = field(default_factory=dict)  # arguments of the module beside hyperparameters
    arguments: Mapping[str, str] = field(default_factory=dict)  # of the module for hyperparameters of other names
    module_shapes: Shapes | None = None  # that fit its parameters
    pointwise: bool = True  # no operation on whole tensors is in the formula
    mixes: bool = True  # tensors may have different dtypes
    numbers: tuple[Any, ...] = ()  # that may stand for any of the tensors
    rounded_once: tuple[bool, bool] = (True, True)  # in half precision: values, gradients
    jit: bool = True  # torch.jit.trace and save work
    library: str = ""  # the operator of torch.library that it is registered as
    tolerance: float | None = None  # where the composite is less accurate than its dtype

    @property
    def places(self) -> tuple[int, ...]:
        """The places of the tensors that are differentiated, if any output is."""
        live = set(self.outputs) - set(self.fixed)
        return tuple(i for i, t in enumerate(self.inputs) if t.differentiable) if live else ()

    @property
    def live(self) -> tuple[int, ...]:
        """The places of the outputs that are differentiated."""
        return tuple(i for i, name in enumerate(self.outputs) if name not in self.fixed)

    @property
    def derived(self) -> tuple[int, ...]:
        """The places of the tensors whose gradient is the formula's own."""
        return tuple(i for i in self.places if self.inputs[i].name not in self.overridden)

    @property
    def once(self) -> bool:
        """Whether a second derivative must raise."""
        return not self.double_backward and bool(self.places) and not self.overridden

    @property
    def twice(self) -> bool:
        """Whether second derivatives are those of the reference."""
        return self.double_backward and bool(self.places) and not self.overridden

    @property
    def broadcasts(self) -> bool:
        """Whether tensors of any shapes go together: none is declared, and all may be without dimensions at once."""
        if not self.pointwise or self.ones_shapes:
            return False
        return any({own for own in s if own is not None} == {()} for s in self.all_shapes)

    @cached_property
    def all_shapes(self) -> tuple[Shapes, ...]:
        """Every sample's shapes, those without elements among them."""
        n = len(self.inputs)
        return self.shapes or tuple(tuple(p[i % len(p)] for i in range(n)) for p in _BROADCAST)

    @cached_property
    def full_shapes(self) -> tuple[Shapes, ...]:
        """The shapes that have elements."""
        return tuple(s for s in self.all_shapes if not any(own is not None and 0 in own for own in s))

    @property
    def ones(self) -> Shapes:
        """Shapes at which every element of an output is one value of the formula: 16 alike, named sizes 1."""
        return self.ones_shapes or ((16,),) * len(self.inputs)

    @property
    def first(self) -> Shapes:
        """The shapes of the first sample."""
        return self.full_shapes[0]

    def cases(self, *, empty: bool = False) -> Iterator[Case]:
        """The first shapes in every setting, and the others in the first setting."""
        first = self.first
        yield from ((first, settings) for settings in self.settings)
        shapes = self.all_shapes if empty else self.full_shapes
        yield from ((s, self.settings[0]) for s in shapes if s != first)

    def subsets(self, places: Sequence[int] | None = None) -> list[tuple[int, ...]]:
        """Which gradients may be wanted: every subset of up to four tensors, else each alone, all but each, and all."""
        places = self.places if places is None else places
        n = len(places)
        sizes = range(1, n + 1) if n <= 4 else (1, n - 1, n)
        return [c for k in sizes for c in combinations(places, k)]

    def described(self, shapes: Shapes | None, settings: Settings) -> str:
        """A case in words."""
        parts = [] if shapes is None else [f"shapes {', '.join(map(str, shapes))}"]
        parts += [f"{name}={value!r}" for name, value in settings.items()]
        return f"with {', '.join(parts)}" if parts else "as called"
