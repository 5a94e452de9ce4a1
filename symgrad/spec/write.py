"""Specs as YAML: the canonical text of a Spec, whichever way it came in, or of plain values.

Reading the text gives the same Spec again, but for the places of its parts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from symgrad.spec.model import Formula, Hyperparameter, Module, Options, Output, Sampling, Spec, Tensor
from symgrad.spec.yaml_source import Scalar, SourceText

__all__ = ["as_yaml", "yaml_text"]

_BLOCKS = frozenset(
    {"tensors", "hyperparameters", "let", "outputs", "gradients", "module", "extern", "options", "test"}
)
_INDICATORS = frozenset("-?:,[]{}#&*!|>'\"%@`")
_FLOW = frozenset(",[]{}")


def as_yaml(spec: Spec) -> str:
    """The spec as YAML, in the order of its keys; comments of its source are not kept."""
    return yaml_text(_plain(spec))


def yaml_text(values: Mapping[str, Any]) -> str:
    """A spec as YAML, given as texts, numbers, lists and mappings as they stand under its keys."""
    lines: list[str] = []
    for key, value in values.items():
        if key in _BLOCKS and isinstance(value, Mapping) and value:
            lines.append(f"{key}:")
            for name, item in value.items():
                shown = "" if item is None else f" {_flow(item, inside=False)}"
                lines.append(f"  {_scalar(str(name), inside=False)}:{shown}")
        else:
            lines.append(f"{key}: {_flow(value, inside=False)}")
    return "\n".join(lines) + "\n"


def _flow(value: Any, *, inside: bool = True) -> str:
    if isinstance(value, Mapping):
        items = (f"{_scalar(str(k), inside=True)}:{'' if v is None else ' ' + _flow(v)}" for k, v in value.items())
        return f"{{{', '.join(items)}}}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_flow, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    return _scalar(value, inside=inside) if isinstance(value, str) else repr(value)


def _scalar(text: str, *, inside: bool) -> str:
    """A text, in quotes where YAML would read it as something else."""
    return text if _is_plain(text, inside) else json.dumps(text, ensure_ascii=False)


def _is_plain(text: str, inside: bool) -> bool:
    if not text or text != text.strip() or text[0] in _INDICATORS or not text.isprintable():
        return text == "..."
    if ": " in text or " #" in text or text.endswith(":") or (inside and (_FLOW & set(text) or ":" in text)):
        return False
    return isinstance(Scalar(text, "", SourceText(text, ""), 0, len(text)).value, str)


# ------------------------------------------------------------------------------------------------ specs
def _plain(spec: Spec) -> dict[str, Any]:
    """What stands under the keys of a spec; what is as it would be without being said is left out."""
    values: dict[str, Any] = {"op": spec.op}
    values |= {key: text for key in ("summary", "reference", "doc") if (text := getattr(spec, key))}
    values["tensors"] = {tensor.name: _tensor(tensor) for tensor in spec.tensors}
    sections: dict[str, Any] = {
        "hyperparameters": {h.name: _hyperparameter(h) for h in spec.hyperparameters},
        "let": _lets(spec.let),
        "outputs": {output.name: _output(output) for output in spec.outputs},
        "gradients": {name: formula.line for name, formula in spec.gradients.items()},
    }
    values |= {key: section for key, section in sections.items() if section}
    if spec.module is not None:
        values["module"] = _module(spec.module)
    if spec.extern is not None:
        values["extern"] = spec.extern.named
    if options := _options(spec.options):
        values["options"] = options
    if test := _sampling(spec.test):
        values["test"] = test
    return values


def _lets(formulas: Iterable[Formula]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for formula in formulas:
        loop = formula.loop
        own = found if loop is None else found.setdefault(loop.name, {"repeat": loop.times, "let": {}})["let"]
        own[formula.name] = formula.line
    return found


def _given(*pairs: tuple[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in pairs if value is not None and value != ""}


def _tensor(tensor: Tensor) -> dict[str, Any] | None:
    found = _given(
        ("grad", False if not tensor.grad and tensor.dtype == "float" else None),
        ("default", tensor.default),
        ("shape", None if tensor.shape is None else list(tensor.shape)),
        ("domain", None if tensor.domain is None else str(tensor.domain)),
        ("dtype", None if tensor.dtype == "float" else tensor.dtype),
        ("doc", tensor.doc),
    )
    return found or None


def _hyperparameter(value: Hyperparameter) -> dict[str, Any]:
    return {
        "type": value.type,
        **({} if value.default is None else {"default": value.default}),
        **_given(
            ("domain", None if value.domain is None else str(value.domain)),
            ("choices", None if value.choices is None else list(value.choices)),
            ("doc", value.doc),
        ),
    }


def _output(output: Output) -> Any:
    text = output.formula.line
    extra = _given(("grad", None if output.grad else False), ("doc", output.doc))
    return {"expr": text, **extra} if extra else text


def _module(module: Module) -> dict[str, Any]:
    if not module.parameters:
        return {}
    return {
        "parameters": {
            p.tensor: p.init if p.shape is None else {"init": p.init, "shape": list(p.shape)} for p in module.parameters
        }
    }


def _options(options: Options) -> dict[str, Any]:
    plain = Options()
    values = ((f.name, getattr(options, f.name)) for f in fields(Options) if f.name != "packed")
    found = {name: _listed(value) for name, value in values if value != getattr(plain, name)}
    return found | ({"save": {p.name: p.form for p in options.packed}} if options.packed else {})


def _sampling(sampling: Sampling) -> dict[str, Any]:
    sections = ((f.name, getattr(sampling, f.name)) for f in fields(Sampling))
    return {name: {key: _listed(value) for key, value in section.items()} for name, section in sections if section}


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else value
