"""What the suites for JAX and MLX have in common: the facts of an operation, and the points that it is tested at."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

__all__ = ["Facts", "Golden", "Input", "fitted", "numbered", "outputs", "untrue"]

Shapes: TypeAlias = "tuple[tuple[int, ...] | None, ...]"


@dataclass(frozen=True)
class Input:
    """An array argument: its name, and the range that its values are drawn from.

    ``dtype`` is ``float``, ``int`` or ``bool``; ``grad`` says whether it has a gradient.
    """

    name: str
    low: float = -3.0
    high: float = 3.0
    dtype: str = "float"
    grad: bool = True


@dataclass(frozen=True)
class Golden:
    """A point, and the truth there from many digits, which neither framework nor derivative rules have a part in.

    Numbers stand flat, in the order of elements. None is for what is no number or beyond float32, and ``...`` for one
    that rounding of the arguments moves, of which nothing is asked but that it is finite.

    Attributes:
        shapes, arguments: of all arguments.
        settings: the hyperparameters.
        values: of each output.
        gradients: by argument, of the sum of all elements of the differentiable outputs, times 1, 2, 3 and so on.
    """

    shapes: Sequence[tuple[int, ...]]
    arguments: Sequence[Sequence[Any]]
    settings: Mapping[str, Any]
    values: Sequence[Sequence[Any]]
    gradients: Mapping[str, Sequence[Any]]


class Facts:
    """The facts of an operation, as class attributes of its tests.

    Attributes:
        call: the operation.
        composite: its formula as written, with the same arguments, which the framework differentiates.
        reference: what it differentiates instead, where of the formula it makes NaN in branches not taken.
        inputs: the array arguments, in order.
        cases: hyperparameters and shapes of all arguments to test with; None for one that is not given.
        rules: gradients that the spec gives in place of the derived ones, by argument: functions of all arguments and
            of the cotangents. Only what is given that way differs from the composite.
        linear: whether all rules are linear in the cotangents, so that there is forward mode.
        smooth: for each output, whether it is differentiable.
        refused: hyperparameters, a value that each refuses, and the error that says so.
        empty: shapes without elements, where arguments broadcast.
        large: shapes at which it is told what reverse mode keeps, where those of the cases are small.
        golden: points at moderate and extreme values, and the truth there.
    """

    call: ClassVar[Callable[..., Any]]
    composite: ClassVar[Callable[..., Any]]
    reference: ClassVar[Callable[..., Any] | None] = None
    inputs: ClassVar[Sequence[Input]]
    cases: ClassVar[Sequence[tuple[Mapping[str, Any], Shapes]]]
    rules: ClassVar[Sequence[tuple[str, Callable[..., Any]]]] = ()
    linear: ClassVar[bool] = True
    smooth: ClassVar[Sequence[bool]] = (True,)
    refused: ClassVar[Sequence[tuple[str, Any, type[Exception]]]] = ()
    empty: ClassVar[Sequence[Shapes]] = ()
    large: ClassVar[Sequence[Shapes]] = ()
    golden: ClassVar[Sequence[Golden]] = ()

    @classmethod
    def differentiated(cls) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """What is compared where derivatives are."""
        return cls.call, cls.reference or cls.composite

    def points(self) -> Iterator[tuple[Mapping[str, Any], list[Any]]]:
        """Hyperparameters and arguments of every case, as arrays of numpy in float64."""
        for settings, shapes in self.cases:
            yield settings, self.sample(shapes)

    def sample(self, shapes: Shapes, seed: int = 0) -> list[Any]:
        """Arguments of these shapes, as arrays of numpy in float64."""
        import numpy as np

        generator = np.random.default_rng(seed)
        found: list[Any] = []
        for of, shape in zip(self.inputs, shapes, strict=True):
            values: Any = None if shape is None else generator.uniform(of.low, of.high, shape)
            if values is not None and of.dtype != "float":
                values = np.floor(values).astype("int32") if of.dtype == "int" else values >= 0.5 * (of.low + of.high)
            found.append(values)
        return found

    def wanted(self, arguments: Sequence[Any]) -> list[int]:
        """The places of the arguments that are differentiated."""
        floats = (k for k, of in enumerate(self.inputs) if of.grad and of.dtype == "float")
        return [k for k in floats if arguments[k] is not None]

    def at(self, function: Callable[..., Any], settings: Mapping[str, Any], arguments: Sequence[Any]) -> Any:
        """The differentiable outputs as a function of the arguments that are differentiated."""
        places = self.wanted(arguments)

        def of_wanted(*values: Any) -> list[Any]:
            whole = list(arguments)
            for place, value in zip(places, values, strict=True):
                whole[place] = value
            return [y for y, smooth in zip(outputs(function(*whole, **settings)), self.smooth, strict=True) if smooth]

        return of_wanted


def numbered(values: Sequence[Any]) -> dict[str, Any]:
    """Outputs by number, beside which there is room for gradients by name."""
    return {str(k): value for k, value in enumerate(values)}


def untrue(found: Any, truth: Sequence[Any], rtol: float = 1e-4, scale: float = 1.0) -> str:
    """What is wrong with an array beside its true elements; empty if nothing is. `scale` is the size of its terms."""
    import numpy as np

    size = max((abs(t) for t in truth if isinstance(t, float)), default=0.0)
    for own, t in zip(np.ravel(found).tolist(), truth, strict=True):
        if t is ... and not math.isfinite(own):
            return f"{own}, where the truth is finite"
        if t is not None and t is not ... and not abs(own - t) <= rtol * max(abs(t), 0.01 * max(size, scale)):
            return f"{own!r}, not {t!r}"
    return ""


def outputs(value: Any) -> tuple[Any, ...]:
    """The outputs of an operation as a tuple."""
    return value if isinstance(value, tuple) else (value,)


def fitted(value: Any, shape: Sequence[int]) -> Any:
    """An array summed along what a shape was broadcast to."""
    while value.ndim > len(shape):
        value = value.sum(0)
    own = shape[len(shape) - value.ndim :]
    for k, size in enumerate(own):
        if size == 1 != value.shape[k]:
            value = value.sum(k, keepdims=True)
    return value
