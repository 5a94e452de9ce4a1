"""From what stands under the name of a tensor, hyperparameter, formula or output to its value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from symgrad.errors import shown
from symgrad.spec.grammar import finite, integer
from symgrad.spec.interval import Interval
from symgrad.spec.model import Formula, Hyperparameter, Kind, Loop, Output, Tensor, Value
from symgrad.spec.names import normal
from symgrad.spec.readers import Named, Path, Report, spelled
from symgrad.spec.shapes import dims_fault
from symgrad.spec.yaml_source import Scalar

__all__ = [
    "allowed_values",
    "check_inside",
    "make_formula",
    "make_hyperparameter",
    "make_output",
    "make_tensor",
]

Read = Mapping[str, Any]


def _real(value: Value) -> float | None:
    number = finite(value)
    return None if number is None else float(number)


# Per type of a hyperparameter: how a message calls it, and how a literal becomes a value of it
# (None where the literal is of another type).
_TYPES: Mapping[str, tuple[str, Callable[[Value], Value | None]]] = {
    "float": ("a finite number", _real),
    "int": ("an integer of 64 bits", integer),
    "bool": ("true or false", lambda value: value if isinstance(value, bool) else None),
    "str": ("a text, in quotes if need be", lambda value: value if isinstance(value, str) else None),
}

# The type that literals of these Python types are of, together.
_KIND_OF: Mapping[frozenset[type], Kind] = {
    frozenset({float}): "float",
    frozenset({int, float}): "float",
    frozenset({int}): "int",
    frozenset({bool}): "bool",
    frozenset({str}): "str",
}

# Per dtype of a tensor: the same for its default.
_DTYPES: Mapping[str, tuple[str, Callable[[int | float], bool]]] = {
    "float": ("a number", lambda number: not isinstance(number, bool)),
    "int": ("an integer of 64 bits", lambda number: integer(number) is not None),
    "bool": ("true, false, 0 or 1", lambda number: number in (0, 1)),
}


def make_tensor(entry: Named, report: Report) -> Tensor:
    """A tensor; dtype int and bool imply that it is not differentiated."""
    name, path, read = entry
    dtype, default, domain = read.get("dtype", "float"), read.get("default"), read.get("domain")
    if dtype != "float" and read.get("grad"):
        report.at_value((*path, "grad"), f"a tensor of dtype {dtype} is never differentiated")
    if dtype == "bool" and domain is not None:
        report.at_value((*path, "domain"), "a tensor of dtype bool has no domain")
    _check_integers(domain, dtype, path, report)
    if "shape" in read and (fault := dims_fault(read["shape"])):
        report.at_value((*path, "shape"), fault)
    if default is not None:
        expected, fits = _DTYPES[dtype]
        if fits(default):
            check_inside(default, domain, (*path, "default"), report)
        else:
            report.at_value((*path, "default"), f"must be {expected}, as the dtype is {dtype}")
            read = {**read, "default": 0}  # so that the formulas can be checked
    grad = read.get("grad", True) and dtype == "float"
    return Tensor(**{**read, "name": name, "location": report.location(path), "grad": grad})


def make_hyperparameter(entry: Named, report: Report) -> Hyperparameter | None:
    """A hyperparameter; its type, where it is not given, is that of its default and choices."""
    name, path, read = entry
    kind: Kind | None = read.get("type") or _inferred_type(path, read, report)
    if kind is None:
        return None
    domain: Interval | None = read.get("domain")
    if domain is not None and kind in ("bool", "str"):
        report.at_value((*path, "domain"), f"a hyperparameter of type {kind} has no domain; use 'choices'")
    elif domain is not None and "choices" in read:
        report.at_key((*path, "choices"), "a hyperparameter has a domain or choices, not both")
    _check_integers(domain, kind, path, report)
    typed = Hyperparameter(name, report.location(path), kind, doc=read.get("doc", ""))
    choices = allowed_values(read.get("choices", ()), typed, (*path, "choices"), report)
    limited = replace(typed, domain=domain, choices=choices or None)
    if "default" not in read:
        return limited
    place = (*path, "default") if report.has((*path, "default")) else path  # a record, or the shorthand
    return replace(limited, default=_allowed_value(read["default"], limited, place, report))


def make_formula(entry: Named, report: Report) -> Formula:
    """The formula that stands under a name."""
    return _formula(entry.name, entry.path, entry.value)


def make_lets(entry: Named, report: Report) -> list[Formula]:
    """The formula of an intermediate, or those of a repeated set."""
    name, path, read = entry
    if isinstance(read, Scalar):
        return [_formula(name, path, read)]
    loop = Loop(name, read.get("repeat", 1))
    return [
        replace(_formula(inner.name, inner.path, inner.value), loop=loop)
        for inner in read.get("let", ())
        if inner.value is not None
    ]


def make_output(entry: Named, report: Report) -> Output | None:
    """An output."""
    name, path, read = entry
    if "expr" not in read:
        return None
    return Output(_formula(name, path, read["expr"]), read.get("grad", True), read.get("doc", ""))


def allowed_values(
    values: Sequence[Value], hyperparameter: Hyperparameter, path: Path, report: Report
) -> tuple[Value, ...]:
    """Those of ``values``, a list in the file, that the hyperparameter can have; each at most once."""
    allowed: list[Value] = []
    for index, value in enumerate(values):
        place = (*path, index)
        fitting = _allowed_value(value, hyperparameter, place, report)
        if fitting is not None and fitting in allowed:
            report.at_value(place, f"{shown(str(value))} stands in the list already")
        elif fitting is not None:
            allowed.append(fitting)
    return tuple(allowed)


def _check_integers(domain: Interval | None, kind: str, path: Path, report: Report) -> None:
    """Report a domain of integers in which there is none."""
    if kind == "int" and domain is not None and domain.integers[0] > domain.integers[1]:
        report.at_value((*path, "domain"), f"there is no integer in {domain}")


def check_inside(number: float, domain: Interval | None, path: Path, report: Report) -> None:
    """Report a number outside of a domain."""
    if domain is not None and number not in domain:
        report.at_value(path, f"{number} is outside of the domain {domain}")


def _inferred_type(path: Path, read: Read, report: Report) -> Kind | None:
    given = [*read.get("choices", ()), *([read["default"]] if "default" in read else [])]
    types = frozenset(type(value) for value in given)
    if types in _KIND_OF:
        return _KIND_OF[types]
    reported = ("type",) if types else ("type", "default", "choices")  # what is there, but wrong
    if not any(report.has((*path, key)) for key in reported):
        problem = "default and choices are of several types" if types else "has neither a type nor a default"
        report.at_key(path, f"{problem}; give 'type: float', int, bool or str")
    return None


def _allowed_value(value: Value, hyperparameter: Hyperparameter, path: Path, report: Report) -> Value | None:
    """``value`` in the type of the hyperparameter, or None where it cannot have it."""
    expected, convert = _TYPES[hyperparameter.type]
    fitting = convert(value)
    if fitting is None:
        report.at_value(path, f"must be {expected}, as the type is {hyperparameter.type}")
    elif hyperparameter.choices is not None and fitting not in hyperparameter.choices:
        choices = ", ".join(shown(str(choice)) for choice in hyperparameter.choices[:10])
        report.at_value(path, f"{shown(str(fitting))} is not one of the choices: {choices}")
    elif not isinstance(fitting, (bool, str)):
        check_inside(fitting, hyperparameter.domain, path, report)
    return fitting


def _formula(name: str, path: Path, scalar: Scalar) -> Formula:
    where = spelled((*map(str, path[:-1]), normal(str(path[-1]))))
    return Formula(name, scalar.text, scalar.locate(0), where, scalar)
