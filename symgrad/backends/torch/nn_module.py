"""The torch.nn.Module that owns the parameters of an operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symgrad.backends.torch.docs import listed, one_or_more_lines, summary
from symgrad.backends.torch.layout import Layout
from symgrad.backends.torch.public import hyperparameter_type, literal, may_be_left_out
from symgrad.spec.model import Hyperparameter, Parameter


def module(layout: Layout) -> dict[str, Any] | None:
    """The parts of the nn.Module that owns the parameters."""
    spec = layout.spec
    if spec.module is None:
        return None
    parameters = spec.module.parameters
    owned = {p.tensor for p in parameters}
    sizes = list(dict.fromkeys(d for p in parameters for d in p.shape or () if isinstance(d, str)))
    hypers = spec.hyperparameters
    inputs = [t for t in spec.tensors if t.name not in owned]
    init = [*(f"self.{s} = {s}" for s in sizes), *(f"self.{h.name} = {h.name}" for h in hypers)]
    init += [f"self.initial_{p.tensor} = {p.tensor}" for p in parameters]
    for p in parameters:
        shape = ", ".join(str(d) for d in p.shape or ())
        shape = f"({shape},)" if len(p.shape or ()) == 1 else f"({shape})"
        init.append(f"self.{p.tensor} = torch.nn.Parameter(torch.empty({shape}, device=device, dtype=dtype))")
    if parameters:
        init.append("self.reset_parameters()")
    call = [t.name if t.name not in owned else f"self.{t.name}" for t in spec.tensors]
    call += [f"{h.name}=self.{h.name}" for h in hypers]
    shown = [*sizes, *(h.name for h in hypers)]
    pieces = [f"{s}={{self.{s}!r}}" for s in shown] + [f"{p.tensor}={{self.initial_{p.tensor}}}" for p in parameters]
    owns = listed([p.tensor for p in parameters])
    optional = " | None"
    return {
        "docstring": one_or_more_lines(f"{summary(layout)[:-1]}, as a module{f' that owns {owns}' if owns else ''}."),
        "parameters": [{"name": p.tensor} for p in parameters],
        "signature": _module_signature(sizes, parameters, hypers),
        "init": init,
        "reset": [f"torch.nn.init.constant_(self.{p.tensor}, self.initial_{p.tensor})" for p in parameters],
        "inputs": "".join(
            f", {t.name}: Tensor{optional if t.default is not None else ''}"
            + (" = None" if may_be_left_out(t, layout) else "")
            for t in inputs
        ),
        "call": f"{spec.op}({', '.join(call)})",
        "repr": f'f"{", ".join(pieces)}"' if pieces else '""',
    }


def _module_signature(sizes: Sequence[str], parameters: Sequence[Parameter], hypers: Sequence[Hyperparameter]) -> str:
    """Sizes, initial values, hyperparameters, then device and dtype."""
    required = [f"{s}: int" for s in sizes] + [
        f"{h.name}: {hyperparameter_type(h)}" for h in hypers if h.default is None
    ]
    optional = [f"{p.tensor}: float = {literal(float(p.init))}" for p in parameters]
    optional += [f"{h.name}: {hyperparameter_type(h)} = {literal(h.default)}" for h in hypers if h.default is not None]
    if parameters:
        optional += ["device: torch.device | str | None = None", "dtype: torch.dtype | None = None"]
    return ", ".join(["self", *required, *optional])
