"""What the suites for JAX and MLX have in common: the facts of an operation, and the points that it is tested at."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from symgrad.testing.facts import Input, Shapes

__all__ = ["Facts", "Golden", "golden_weights", "numbered", "outputs", "untrue", "untrue_at"]

_KINDS = {"float": "float32", "int": "int32", "bool": "bool"}  # of the arguments of golden points


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
        generator = np.random.default_rng(seed)
        found: list[Any] = []
        for of, shape in zip(self.inputs, shapes, strict=True):
            values: Any = None if shape is None else generator.uniform(of.low, of.high, shape)
            if values is not None and of.dtype != "float":
                values = np.floor(values).astype("int32") if of.dtype == "int" else values >= 0.5 * (of.low + of.high)
            found.append(values)
        return found

    def wanted(self, arguments: Sequence[Any]) -> list[int]:
        """The places of the arguments that are differentiated: none where no output is."""
        wanted = [k for k, of in enumerate(self.inputs) if of.differentiable and arguments[k] is not None]
        return wanted if any(self.smooth) else []

    def at(self, function: Callable[..., Any], settings: Mapping[str, Any], arguments: Sequence[Any]) -> Any:
        """The differentiable outputs as a function of the arguments that are differentiated."""
        places = self.wanted(arguments)

        def of_wanted(*values: Any) -> list[Any]:
            whole = list(arguments)
            for place, value in zip(places, values, strict=True):
                whole[place] = value
            return [y for y, smooth in zip(outputs(function(*whole, **settings)), self.smooth, strict=True) if smooth]

        return of_wanted

    def by_rules(
        self, xp: Any, gradient: Sequence[Any], settings: Mapping[str, Any], arguments: Sequence[Any], weights: Any
    ) -> list[Any]:
        """A gradient with what the spec gives in place of the derived one.

        `xp` is the framework's module of arrays, `weights` the cotangents of the differentiable outputs.
        """
        cotangents = iter(weights)
        whole = [next(cotangents) if smooth else None for smooth in self.smooth]
        rules = dict(self.rules)
        found = list(gradient)
        for k, place in enumerate(self.wanted(arguments)):
            rule = rules.get(self.inputs[place].name)
            if rule is not None:
                own, given = arguments[place], rule(*arguments, *whole, **settings)
                given = xp.array(float(given)) if isinstance(given, int | float) else given
                found[k] = xp.broadcast_to(_fitted(given, own.shape), own.shape).astype(own.dtype)
        return found

    def golden_arguments(self, point: Golden) -> list[Any]:
        """The arguments of a golden point, as arrays of numpy."""
        pairs = zip(self.inputs, point.arguments, point.shapes, strict=True)
        return [np.array(values, _KINDS[of.dtype]).reshape(shape) for of, values, shape in pairs]

    def assert_refused(
        self, arguments: Sequence[Any], settings: Mapping[str, Any], array: Callable[[float], Any]
    ) -> None:
        """Assert that hyperparameters outside of their range, arrays in their place and texts for arrays raise."""
        call = type(self).call
        for name, value, error in self.refused:
            with pytest.raises(error):
                call(*arguments, **{**settings, name: value})
        for name, value in settings.items():
            if isinstance(value, float):  # its gradient would be 0 in silence
                with pytest.raises(TypeError):
                    call(*arguments, **{**settings, name: array(value)})
        with pytest.raises(TypeError):
            call(*["text", *arguments[1:]], **settings)


def numbered(values: Sequence[Any]) -> dict[str, Any]:
    """Outputs by number, beside which there is room for gradients by name."""
    return {str(k): value for k, value in enumerate(values)}


def golden_weights(values: Sequence[Any]) -> list[Any]:
    """The cotangents of the outputs at a golden point: arrays of numpy with 1, 2, 3 and so on."""
    ends = np.cumsum([y.size for y in values]).tolist()
    return [np.arange(end - y.size + 1.0, end + 1.0).reshape(y.shape) for y, end in zip(values, ends, strict=True)]


def untrue_at(point: Golden, found: Mapping[str, Any], *, finite: bool = False) -> Iterator[tuple[str, str]]:
    """Which outputs, by number, and gradients, by name, are wrong, and what is; `finite` asks for no more than that."""
    for name, numbers in (numbered(point.values) | dict(point.gradients)).items():
        scale = 1 if name.isdigit() else sum(map(len, point.values))  # the weights of its terms
        wrong = untrue(found[name], [t and ... for t in numbers] if finite else numbers, scale=scale)
        if wrong:
            yield f"{name} at {point.arguments} {point.settings}", wrong


def untrue(found: Any, truth: Sequence[Any], rtol: float = 1e-4, scale: float = 1.0) -> str:
    """What is wrong with an array beside its true elements; empty if nothing is. `scale` is the size of its terms."""
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


def _fitted(value: Any, shape: Sequence[int]) -> Any:
    """An array summed along what a shape was broadcast to."""
    while value.ndim > len(shape):
        value = value.sum(0)
    own = shape[len(shape) - value.ndim :]
    for k, size in enumerate(own):
        if size == 1 != value.shape[k]:
            value = value.sum(k, keepdims=True)
    return value
