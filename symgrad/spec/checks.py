"""From what the keys of a spec hold to a Spec: what they mean together, and whether they agree."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

from symgrad.errors import shown
from symgrad.spec.declarations import (
    allowed_values,
    check_inside,
    make_formula,
    make_hyperparameter,
    make_lets,
    make_output,
    make_tensor,
)
from symgrad.spec.model import (
    Extern,
    Hyperparameter,
    Module,
    Options,
    Output,
    Packing,
    Parameter,
    Sampling,
    Spec,
    Tensor,
)
from symgrad.spec.names import name_fault, op_fault
from symgrad.spec.readers import Named, Path, Report
from symgrad.spec.shapes import dims_fault, size_fault
from symgrad.spec.yaml_source import SourceText

__all__ = ["build_spec"]

T = TypeVar("T")

Read: TypeAlias = Mapping[str, Any]
ByName: TypeAlias = Mapping[str, T | None]
"""What each name stands for; None where that has been reported as wrong."""

_DECLARING = {
    "tensors": "a tensor",
    "hyperparameters": "a hyperparameter",
    "let": "an intermediate",
    "outputs": "an output",
}
_MOST_OPTIONAL = 5
_MOST_TENSORS = 150
_DOCUMENTATION = ("summary", "reference", "doc")


def build_spec(read: Read, source: SourceText, report: Report) -> Spec:
    """Check ``read`` as a whole and make it a Spec, which is of use only if nothing was reported."""
    read = _outputs_apart(read)
    _check_op(read, report)
    _check_names(read, report)
    tensors = _each(make_tensor, read, "tensors", report)
    hyperparameters = _each(make_hyperparameter, read, "hyperparameters", report)
    if len([t for t in tensors.values() if t is not None and t.default is not None]) > _MOST_OPTIONAL:
        report.at_value(("tensors",), f"at most {_MOST_OPTIONAL} tensors have a default: each doubles the ways through")
    if len(tensors) > _MOST_TENSORS:
        report.at_key(("tensors",), f"at most {_MOST_TENSORS} tensors: each has a gradient; stack those that are alike")
    if tensors and all(t is not None and t.default is not None for t in tensors.values()):
        report.at_value(("tensors",), "one tensor has no default: it gives the result its shape, dtype and device")
    outputs = _each(make_output, read, "outputs", report)
    gradients = _each(make_formula, read, "gradients", report)
    _check_gradients(read, tensors, outputs, report)
    return Spec(
        path=source.path,
        text=source.text,
        op=read.get("op", ""),
        places={".".join(path): report.location(path, key=path != ("op",)) for path in _placed(read)},
        tensors=_known(tensors),
        hyperparameters=_known(hyperparameters),
        let=tuple(f for formulas in _known(_each(make_lets, read, "let", report)) for f in formulas),
        outputs=_known(outputs),
        gradients={gradient.name: gradient for gradient in _known(gradients)},
        module=_module(read["module"], tensors, report) if "module" in read else None,
        extern=Extern(**read["extern"]) if read.get("extern") else None,
        options=_options(read, tensors, outputs, report),
        test=_sampling(read.get("test", {}), tensors, hyperparameters, report),
        **{key: read.get(key, "") for key in _DOCUMENTATION},
    )


def _placed(read: Read) -> list[tuple[str, ...]]:
    """The paths of what later stages may refuse."""
    found: list[tuple[str, ...]] = [("options", option) for option in read.get("options", {})]
    if "op" in read:
        found.append(("op",))
    return found


def _outputs_apart(read: Read) -> Read:
    """An output that is called as a tensor is has another name in everything that is written: `y_out` beside `y`."""
    tensors = {entry.name for entry in read.get("tensors", ())}
    taken = {entry.name for section in _DECLARING for entry in read.get(section, ())}
    outputs = []
    for entry in read.get("outputs", ()):
        name = entry.name
        if name in tensors:
            name = f"{name}_out"
            while name in taken:
                name += "_"
            taken.add(name)
        outputs.append(entry._replace(name=name))
    return {**read, "outputs": tuple(outputs)} if "outputs" in read else read


def _each(make: Callable[[Named, Report], T], read: Read, section: str, report: Report) -> ByName[T]:
    entries: Iterable[Named] = read.get(section, ())
    return {entry.name: make(entry, report) if entry.value is not None else None for entry in entries}


def _known(values: ByName[T]) -> tuple[T, ...]:
    return tuple(value for value in values.values() if value is not None)


# --------------------------------------------------------------------------- names


def _check_op(read: Read, report: Report) -> None:
    fault = op_fault(read["op"]) if "op" in read else None
    if fault:
        report.at_value(("op",), fault)


def _check_names(read: Read, report: Report) -> None:
    """Every name is one and is declared once; there is something to compute, from something."""
    declared: dict[str, tuple[str, Path]] = {}
    for section, what in _DECLARING.items():
        for name, path, value in read.get(section, ()):
            _declare(name, path, what, declared, report)
            if section == "let" and isinstance(value, dict):
                for inner, place, _ in value.get("let", ()):
                    _declare(inner, place, what, declared, report, again=True)
    for section in ("tensors", "outputs"):
        if read.get(section) == ():
            report.at_key((section,), f"an operation has at least one {section.removesuffix('s')}")


def _declare(
    name: str, path: Path, what: str, declared: dict[str, tuple[str, Path]], report: Report, *, again: bool = False
) -> None:
    """Note a name as declared, or report why it cannot be.

    What is calculated in rounds may have the name of an intermediate above, whose value the first round reads: `again`.
    """
    fault = name_fault(name)
    other, place = declared.get(name, ("", path))
    if not fault and other and not (again and other == what):
        fault = f"{name!r} is declared already: it is {other} on line {report.location(place).line}"
    if fault:
        report.at_key(path, fault)
    else:
        declared[name] = (what, path)


def _refer(entries: Iterable[Named], known: ByName[T], what: str, report: Report) -> Iterator[tuple[Named, T]]:
    """The entries together with what their names stand for; names that stand for nothing are reported."""
    seen: dict[str, Path] = {}
    for entry in entries:
        if entry.name not in known:
            report.at_key(entry.path, f"unknown {what} {shown(entry.name)}{report.suggestion(entry.name, known)}")
        elif entry.name in seen:
            line = report.location(seen[entry.name]).line
            report.at_key(entry.path, f"{entry.name!r} stands on line {line} already")
        elif (found := known[entry.name]) is not None:
            yield entry, found
        seen.setdefault(entry.name, entry.path)


# --------------------------------------------------------------------------- sections


def _check_gradients(read: Read, tensors: ByName[Tensor], outputs: ByName[Output], report: Report) -> None:
    for entry, tensor in _refer(read.get("gradients", ()), tensors, "tensor", report):
        if not tensor.grad:
            report.at_key(entry.path, f"the tensor {tensor.name!r} is never differentiated")
    if read.get("gradients") and outputs and all(output and not output.grad for output in outputs.values()):
        report.at_key(("gradients",), "every output has 'grad: false', so there are no gradients")


def _module(read: Read, tensors: ByName[Tensor], report: Report) -> Module:
    parameters = []
    for entry, tensor in _refer(read.get("parameters", ()), tensors, "tensor", report):
        values = entry.value or {}
        if not tensor.grad:
            report.at_key(entry.path, f"the tensor {tensor.name!r} is never differentiated, so no parameter")
        shape = _parameter_shape(entry, tensor, report)
        if "init" in values:
            record = report.has((*entry.path, "init"))
            check_inside(values["init"], tensor.domain, (*entry.path, "init") if record else entry.path, report)
            parameters.append(Parameter(tensor.name, values["init"], shape))
    return Module(tuple(parameters))


def _parameter_shape(entry: Named, tensor: Tensor, report: Report) -> tuple[int | str, ...] | None:
    """The shape of a parameter: its own, or that of its tensor."""
    place = (*entry.path, "shape")
    declared = None if tensor.shape in ((), ("...",)) or report.has(place) else tensor.shape
    shape: tuple[int | str, ...] | None = (entry.value or {}).get("shape", declared)
    if shape is not None and (fault := _parameter_shape_fault(shape, tensor)):
        if report.has(place):
            report.at_value(place, fault)
        else:
            report.at_key(entry.path, f"{fault}; give 'init' and 'shape'")
    return shape


def _parameter_shape_fault(shape: tuple[int | str, ...], tensor: Tensor) -> str | None:
    if "..." in shape:
        return "a parameter has definite sizes, not '...'"
    declared = tensor.shape
    if declared is not None and "..." not in declared and len(declared) != len(shape):
        return f"the tensor {tensor.name!r} has the dimensions [{', '.join(map(str, declared))}]"
    return dims_fault(shape)


def _options(spec: Read, tensors: ByName[Tensor], outputs: ByName[Output], report: Report) -> Options:
    read = dict(spec.get("options", {}))
    inplace = read.get("inplace")
    if inplace is not None and (fault := _inplace_fault(inplace, tensors, outputs, report)):
        report.at_value(("options", "inplace"), fault)
    if isinstance(read.get("save"), tuple):
        names = {entry.name for section in ("tensors", "let", "outputs") for entry in spec.get(section, ())}
        read["packed"] = _packed(read.pop("save"), names, report)
        if read.get("kernels") == "all":
            report.at_value(("options", "kernels"), "fused passes keep no packed values; leave 'all' out, or 'save'")
        if spec.get("extern"):
            report.at_value(("extern",), "functions of one's own keep tensors as they are; leave 'save' out")
    return Options(**read)


def _packed(entries: Iterable[Named], names: Iterable[str], report: Report) -> tuple[Packing, ...]:
    for entry in entries:
        if entry.name not in names:
            near = report.suggestion(entry.name, names)
            report.at_key(entry.path, f"no tensor, intermediate or output is called {shown(entry.name)}{near}")
    return tuple(Packing(e.name, e.value, report.location(e.path)) for e in entries if e.value is not None)


def _inplace_fault(name: str, tensors: ByName[Tensor], outputs: ByName[Output], report: Report) -> str | None:
    if name not in tensors:
        return f"unknown tensor {shown(name)}{report.suggestion(name, tensors)}"
    tensor = tensors[name]
    if tensor is not None and tensor.default is not None:
        return f"the tensor {name!r} may be None, so it cannot be overwritten"
    return "an operation in place has one output" if len(outputs) > 1 else None


def _sampling(
    read: Read,
    tensors: ByName[Tensor],
    hyperparameters: ByName[Hyperparameter],
    report: Report,
) -> Sampling:
    shapes, ranges, values = {}, {}, {}
    bound: dict[str, int] = {}
    for entry, tensor in _refer(read.get("shapes", ()), tensors, "tensor", report):
        if entry.value is not None:
            shapes[entry.name] = entry.value
            if fault := size_fault(entry.value, tensor.shape, bound):
                report.at_value(entry.path, fault)
    for entry, tensor in _refer(read.get("ranges", ()), tensors, "tensor", report):
        if entry.value is not None:
            ranges[entry.name] = entry.value
            _check_range(entry, tensor, report)
    for entry, hyperparameter in _refer(read.get("values", ()), hyperparameters, "hyperparameter", report):
        if entry.value is not None:
            values[entry.name] = allowed_values(entry.value, hyperparameter, entry.path, report)
    return Sampling(shapes, ranges, values)


def _check_range(entry: Named, tensor: Tensor, report: Report) -> None:
    if tensor.dtype == "bool":
        report.at_key(entry.path, "a tensor of dtype bool has no range")
    elif len(entry.value) != 2:
        report.at_value(entry.path, "must be two numbers: [low, high]")
    elif entry.value[0] > entry.value[1]:
        report.at_value(entry.path, "a reversed range: the lower number comes first")
    elif tensor.dtype == "int" and math.ceil(entry.value[0]) > math.floor(entry.value[1]):
        report.at_value(entry.path, "there is no integer in this range")
    else:
        for index, number in enumerate(entry.value):
            check_inside(number, tensor.domain, (*entry.path, index), report)
