"""What a spec says, as frozen values. Everything here has been checked, except for the formulas."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from types import MappingProxyType
from typing import Literal, TypeAlias

from symgrad.errors import Location, Mistake
from symgrad.spec.interval import Interval
from symgrad.spec.yaml_source import Scalar, SourceText

__all__ = [
    "FORMS",
    "Dim",
    "Extern",
    "Formula",
    "Hyperparameter",
    "Kind",
    "Loop",
    "Module",
    "Options",
    "Output",
    "Packing",
    "Parameter",
    "Sampling",
    "Spec",
    "Tensor",
    "Value",
]

Dim: TypeAlias = int | str
"""A size, the name of one, or ``"..."`` for any leading ones."""

Value: TypeAlias = bool | int | float | str
"""What a hyperparameter can be."""


Kind: TypeAlias = Literal["float", "int", "bool", "str"]
"""The Python types of hyperparameters."""


@dataclass(frozen=True)
class Tensor:
    """A tensor argument.

    ``default`` not None: the caller may pass ``None``, and the formula holds with this number.
    ``shape`` None: it broadcasts with the others; ``"..."`` can only be its first dimension.
    """

    name: str
    location: Location
    grad: bool = True
    default: int | float | None = None
    shape: tuple[Dim, ...] | None = None
    domain: Interval | None = None
    dtype: Literal["float", "int", "bool"] = "float"
    doc: str = ""


@dataclass(frozen=True)
class Hyperparameter:
    """A Python value as an argument. ``default`` None: the caller must give it."""

    name: str
    location: Location
    type: Kind = "float"
    default: Value | None = None
    domain: Interval | None = None
    choices: tuple[Value, ...] | None = None
    doc: str = ""

    @property
    def interval(self) -> Interval | None:
        """Where its values lie: its domain, or what its choices span; None where that is not known."""
        if self.domain is not None or self.type not in ("int", "float") or not self.choices:
            return self.domain
        numbers = [float(choice) for choice in self.choices]
        return Interval(min(numbers), max(numbers), False, False)

    def inside(self, name: str) -> str:
        """The test in Python that a value of this name lies in its domain; empty where each does."""
        return "" if self.domain is None else self.domain.holds(name, self.type == "int")


@dataclass(frozen=True)
class Loop:
    """Intermediates that are calculated ``times`` in turn, each round from the values of the one before."""

    name: str
    times: int


@dataclass(frozen=True)
class Formula:
    """The text of an expression, not parsed yet, and where it stands.

    ``where`` is the path of its key (``outputs.y``). ``text`` is as YAML reads it: without quotes,
    escapes and indentation. ``loop`` is the repeated set that an intermediate belongs to.
    """

    name: str
    text: str
    location: Location
    where: str = ""
    scalar: Scalar | None = field(default=None, repr=False, compare=False)
    loop: Loop | None = None

    @property
    def line(self) -> str:
        """The text on one line, without the blanks that line breaks and comments left."""
        if "'" in self.text or '"' in self.text:
            return " ".join(line.strip() for line in self.text.splitlines())
        return re.sub(r"(?<=[(\[]) | (?=[)\]])", "", " ".join(self.text.split()))

    def locate(self, offset: int) -> Location:
        """Line and column in the file of ``text[offset]``; of the formula's end for a larger offset."""
        if self.scalar is not None:
            return self.scalar.locate(offset)
        return Location(self.location.line, self.location.column + max(0, min(offset, len(self.text))))


@dataclass(frozen=True)
class Output:
    """A result. ``grad`` False: it is marked non-differentiable."""

    formula: Formula
    grad: bool = True
    doc: str = ""

    @property
    def name(self) -> str:
        """The name of the output."""
        return self.formula.name

    @property
    def location(self) -> Location:
        """Where its formula starts."""
        return self.formula.location


@dataclass(frozen=True)
class Parameter:
    """A tensor that the module owns. A name in ``shape`` is a size that the constructor takes."""

    tensor: str
    init: int | float
    shape: tuple[Dim, ...] | None = None


@dataclass(frozen=True)
class Module:
    """The ``torch.nn.Module`` to render."""

    parameters: tuple[Parameter, ...] = ()


FORMS: Mapping[str, str] = MappingProxyType(
    {
        "float8": "a sixteenth of itself, or 1/458752 of the largest of its row",
        "int8": "1/254 of the largest of its row",
        "bit": "",
    }
)
"""The forms in which values may be kept, and by how much each is off then; nothing: what is kept is a mask."""


@dataclass(frozen=True)
class Packing:
    """A value that is kept for backward in fewer bits."""

    name: str
    form: str
    location: Location

    @property
    def error(self) -> str:
        """How far an element of what is read may be off, empty where it is exact."""
        return FORMS[self.form]


@dataclass(frozen=True)
class Options:
    """How the code is rendered. Values that are ``packed`` are named under ``save``, too."""

    save: Literal["auto", "memory", "speed"] = "auto"
    double_backward: bool = True
    inplace: str | None = None
    accumulate: Literal["float32", "same"] = "float32"
    precision: Literal["auto", "strict", "fast"] = "auto"
    align: Literal["names", "positions"] = "names"
    kernels: Literal["auto", "all", "none"] = "auto"
    targets: tuple[str, ...] = ("torch",)
    library: str | None = None
    packed: tuple[Packing, ...] = ()

    @property
    def fused(self) -> bool:
        """Whether fused passes are written, for some calls at least; they keep values as they are."""
        return self.kernels != "none" and not self.packed


@dataclass(frozen=True)
class Extern:
    """Functions of one's own that serve plain calls of forward and of backward, as `package.module.function`."""

    forward: str = ""
    backward: str = ""

    @property
    def named(self) -> dict[str, str]:
        """Those that there are, by method."""
        return {name: path for name, path in (("forward", self.forward), ("backward", self.backward)) if path}


@dataclass(frozen=True)
class Sampling:
    """What the generated test samples, by the names of tensors and hyperparameters."""

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict, hash=False)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict, hash=False)
    values: Mapping[str, tuple[Value, ...]] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Spec:
    """One operation.

    ``text`` is the source; all sequences are in the order of the file. ``places`` are where it has the operation's name
    and its options, by their paths: ``op``, ``options.inplace``.
    """

    path: str
    text: str = field(repr=False)
    op: str
    tensors: tuple[Tensor, ...]
    outputs: tuple[Output, ...]
    hyperparameters: tuple[Hyperparameter, ...] = ()
    let: tuple[Formula, ...] = ()
    gradients: Mapping[str, Formula] = field(default_factory=dict, hash=False)
    module: Module | None = None
    extern: Extern | None = None
    options: Options = Options()
    test: Sampling = Sampling()
    summary: str = ""
    reference: str = ""
    doc: str = ""
    places: Mapping[str, Location] = field(default_factory=dict, repr=False, compare=False)

    @property
    def equations(self) -> list[tuple[str, str]]:
        """The names of intermediates and outputs with their formulas, for people."""
        lets = [(f.name, f.line if f.loop is None else f"{f.line}, {f.loop.times} times") for f in self.let]
        return [*lets, *((o.name, o.formula.line) for o in self.outputs)]

    @property
    def rounds(self) -> Iterator[tuple[Formula, str]]:
        """The intermediates in the order of their calculation, with the name that each value has in code."""
        for loop, group in groupby(self.let, lambda f: f.loop):
            formulas = list(group)
            for k in range(1 if loop is None else loop.times):
                last = loop is None or k == loop.times - 1
                yield from ((f, f.name if last else f"{f.name}_{k + 1}") for f in formulas)

    @property
    def place(self) -> str:
        """Where the operation is written, for messages: a Python file may hold several."""
        return f"{self.path}::{self.op}" if self.path.endswith(".py") else self.path

    def with_kernels(self, on: bool | None = True) -> Spec:
        """The same operation with passes for calls of every size, or with none, or as it is."""
        if on is None:
            return self
        return replace(self, options=replace(self.options, kernels="all" if on else "none"))

    def without_kernels(self) -> Spec:
        """The same operation without fused passes."""
        return self.with_kernels(False)

    def with_targets(self, targets: tuple[str, ...]) -> Spec:
        """The same operation for these targets, or for its own if there are none."""
        return replace(self, options=replace(self.options, targets=targets)) if targets else self

    def mistake_at(self, path: str, message: str) -> Mistake:
        """A mistake at one of the `places`, for a SpecError."""
        return SourceText(self.text, self.path).mistake(self.places.get(path, Location(1, 1)), path, message)

    def mistake(self, formula: Formula, offset: int, message: str) -> Mistake:
        """A mistake at a character of one of the formulas, for a SpecError."""
        location = formula.locate(offset)
        return SourceText(self.text, self.path).mistake(location, formula.where, message)
