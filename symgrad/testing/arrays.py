"""What the suites for JAX and MLX have in common: the facts of an operation, and the points that it is tested at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

__all__ = ["Facts", "Input", "fitted", "outputs"]

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


class Facts:
    """The facts of an operation, as class attributes of its tests.

    Attributes:
        call: the operation.
        composite: its formula as written, with the same arguments, which the framework differentiates.
        inputs: the array arguments, in order.
        cases: hyperparameters and shapes of all arguments to test with; None for one that is not given.
        rules: gradients that the spec gives in place of the derived ones, by argument: functions of all arguments and
            of the cotangents. Only what is given that way differs from the composite.
        linear: whether all rules are linear in the cotangents, so that there is forward mode.
        smooth: for each output, whether it is differentiable.
        refused: hyperparameters, a value that each refuses, and the error that says so.
    """

    call: ClassVar[Callable[..., Any]]
    composite: ClassVar[Callable[..., Any]]
    inputs: ClassVar[Sequence[Input]]
    cases: ClassVar[Sequence[tuple[Mapping[str, Any], Shapes]]]
    rules: ClassVar[Sequence[tuple[str, Callable[..., Any]]]] = ()
    linear: ClassVar[bool] = True
    smooth: ClassVar[Sequence[bool]] = (True,)
    refused: ClassVar[Sequence[tuple[str, Any, type[Exception]]]] = ()

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
