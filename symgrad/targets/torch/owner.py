"""The nn.Module that owns parameters: its constructor, its attributes and its forward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from symgrad.lower.naming import Names
from symgrad.spec.model import Module, Parameter, Spec
from symgrad.targets.literals import literal, tuple_of
from symgrad.targets.torch.docs import listed, one_or_more_lines, summary
from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.public import hyperparameter_type, may_be_left_out
from symgrad.targets.torch.samples import Shapes, shapes_beside

__all__ = ["MEMBERS", "Owner", "facts_to_test", "owner"]

# What an nn.Module has already, beside names that begin with an underscore; a test holds it to torch.
_MEMBERS = """
    T_destination add_module apply bfloat16 buffers call_super_init children compile cpu cuda double dump_patches
    eval extra_repr float forward get_buffer get_extra_state get_parameter get_submodule half ipu load_state_dict
    modules mtia named_buffers named_children named_modules named_parameters parameters register_backward_hook
    register_buffer register_forward_hook register_forward_pre_hook register_full_backward_hook
    register_full_backward_pre_hook register_load_state_dict_post_hook register_load_state_dict_pre_hook
    register_module register_parameter register_state_dict_post_hook register_state_dict_pre_hook requires_grad_
    reset_parameters set_extra_state set_submodule share_memory state_dict to to_empty train training type xpu
    zero_grad
"""
_READ = "self super device dtype torch Tensor Literal bool int str"  # in the class and its methods
_CONSTRUCTING = "self super torch device dtype"  # in the constructor, where there are parameters
MEMBERS = frozenset(_MEMBERS.split())
_LONGEST = 80  # characters of what `extra_repr` returns, beyond which it is more than one string


@dataclass(frozen=True)
class Owner:
    """The names that a module gives to what its spec declares."""

    spec: Spec
    module: Module

    @cached_property
    def declared(self) -> list[str]:
        """Hyperparameters and parameters."""
        return [*(h.name for h in self.spec.hyperparameters), *(p.tensor for p in self.module.parameters)]

    @cached_property
    def arguments(self) -> Mapping[str, str]:
        """What the constructor calls them: as the spec does, wherever that is possible."""
        free = Names(_CONSTRUCTING.split() if self.module.parameters else ["self", "super"])
        return _reserved(free, {n: n if not _is_mangled(n) else _bare(n) for n in self.declared})

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Their attributes."""
        free = Names(MEMBERS | set(_READ.split()))
        return _reserved(free, {n: n if not n.startswith("_") else _bare(n) for n in self.declared})

    @cached_property
    def sizes(self) -> Mapping[str, str]:
        """Of the named dimensions of the parameters, as arguments of the constructor and as attributes."""
        free = Names(MEMBERS | {*_READ.split(), *self.arguments.values(), *self.names.values()})
        shapes = [p.shape or () for p in self.module.parameters]
        return {d: free.reserve(d) for d in dict.fromkeys(d for s in shapes for d in s if isinstance(d, str))}

    @cached_property
    def initial(self) -> Mapping[str, str]:
        """The attributes that hold the initial values of parameters."""
        free = Names((*self.names.values(), *self.sizes.values()))
        return {p.tensor: free.reserve(f"initial_{self.names[p.tensor]}") for p in self.module.parameters}

    @cached_property
    def inputs(self) -> Mapping[str, str]:
        """The arguments of forward, by tensor."""
        free, owned = Names(("self", self.spec.op)), self.initial
        return {t.name: free.reserve(t.name) for t in self.spec.tensors if t.name not in owned}


def _is_mangled(name: str) -> bool:
    """Whether Python calls an argument otherwise inside of a class, or has another use for it there."""
    return name == "__class__" or (name.startswith("__") and not name.endswith("__"))


def _bare(name: str) -> str:
    return (name.strip("_") or "value") + "_"


def _reserved(free: Names, wishes: Mapping[str, str]) -> Mapping[str, str]:
    """A free name for each; those that wish for their own come first."""
    return {n: free.reserve(wishes[n]) for n in sorted(wishes, key=lambda n: n != wishes[n])}


def owner(layout: Layout) -> dict[str, Any] | None:
    """The parts of the nn.Module that owns the parameters."""
    spec = layout.spec
    if spec.module is None:
        return None
    own = Owner(spec, spec.module)
    parameters, hypers, names = spec.module.parameters, spec.hyperparameters, own.names
    given = own.arguments
    kept = {**{n: n for n in own.sizes.values()}, **{given[h.name]: names[h.name] for h in hypers}}
    init = [f"self.{attribute} = {argument}" for argument, attribute in kept.items()]
    init += [f"self.{own.initial[p.tensor]} = {given[p.tensor]}" for p in parameters]
    for p in parameters:
        shape = tuple_of([own.sizes[d] if isinstance(d, str) else str(d) for d in p.shape or ()])
        init.append(f"self.{names[p.tensor]} = torch.nn.Parameter(torch.empty({shape}, device=device, dtype=dtype))")
    if parameters:
        init.append("self.reset_parameters()")
    call = [own.inputs.get(t.name) or f"self.{names[t.name]}" for t in spec.tensors]
    call += [f"{h.name}=self.{names[h.name]}" for h in hypers]
    pieces = [f"{argument}={{self.{attribute}!r}}" for argument, attribute in kept.items()]
    pieces += [f"{given[p.tensor]}={{self.{own.initial[p.tensor]}}}" for p in parameters]
    owns = listed([p.tensor for p in parameters])
    return {
        "docstring": one_or_more_lines(f"{summary(layout)[:-1]}, as a module{f' that owns {owns}' if owns else ''}."),
        "parameters": [{"name": names[p.tensor]} for p in parameters],
        "signature": _signature(own),
        "init": init,
        "reset": [f"torch.nn.init.constant_(self.{names[p.tensor]}, self.{own.initial[p.tensor]})" for p in parameters],
        "inputs": "".join(
            f", {own.inputs[t.name]}: Tensor{' | None' if t.default is not None else ''}"
            + (" = None" if may_be_left_out(t, spec.tensors) else "")
            for t in spec.tensors
            if t.name in own.inputs
        ),
        "call": f"{spec.op}({', '.join(call)})",
        "repr": _joined(pieces),
    }


def _joined(pieces: Sequence[str]) -> str:
    """An f-string of all pieces, or several that Python joins where one would be a long line."""
    if len(", ".join(pieces)) < _LONGEST:
        return f'f"{", ".join(pieces)}"' if pieces else '""'
    texts = [f'f"{p}, "' for p in pieces[:-1]]
    return f'({" ".join(texts)} f"{pieces[-1]}")'


def _signature(own: Owner) -> str:
    """Sizes, initial values, hyperparameters, then device and dtype."""
    hypers, names, parameters = own.spec.hyperparameters, own.arguments, own.module.parameters
    required = [f"{s}: int" for s in own.sizes.values()]
    required += [f"{names[h.name]}: {hyperparameter_type(h)}" for h in hypers if h.default is None]
    optional = [f"{names[p.tensor]}: float = {literal(float(p.init))}" for p in parameters]
    optional += [
        f"{names[h.name]}: {hyperparameter_type(h)} = {literal(h.default)}" for h in hypers if h.default is not None
    ]
    if parameters:
        optional += ["device: torch.device | str | None = None", "dtype: torch.dtype | None = None"]
    return ", ".join(["self", *required, *optional])


# ------------------------------------------------------------------------------------------ what its test asks
def facts_to_test(layout: Layout, shapes: Shapes, setting: Sequence[Any]) -> dict[str, Any] | None:
    """What the generated test states about the module: its parameters with their initial values, its attributes where
    they have other names, the arguments of the constructor beside hyperparameters, and shapes that fit."""
    spec = layout.spec
    if spec.module is None:
        return None
    own = Owner(spec, spec.module)
    owned = {p.tensor: p for p in spec.module.parameters}
    size_of = _sizes_of_names(spec, owned, shapes)
    fixed = {
        n: tuple(size_of.get(d, _SIZE) if isinstance(d, str) else d for d in p.shape or ()) for n, p in owned.items()
    }
    return {
        "parameters": {n: float(p.init) for n, p in owned.items()},
        "attributes": {n: own.names[n] for n in owned if own.names[n] != n},
        "constructor": {name: size_of.get(n, _SIZE) for n, name in own.sizes.items()},
        "arguments": {h.name: own.arguments[h.name] for h in spec.hyperparameters if own.arguments[h.name] != h.name},
        "shapes": shapes_beside(layout, fixed, shapes),
    }


_SIZE = 3  # of a dimension that no tensor has


def _sizes_of_names(spec: Spec, owned: Mapping[str, Parameter], shapes: Shapes) -> dict[str, int]:
    """The sizes of named dimensions; a parameter may have numbers where its tensor has names."""
    pairs: list[tuple[int | str, int | str]] = []
    for t, shape in zip(spec.tensors, shapes, strict=True):
        pairs += zip(reversed(t.shape or ()), reversed(shape or ()), strict=False)
    for t in spec.tensors:
        own = owned[t.name].shape if t.name in owned else None
        pairs += zip(reversed(t.shape or ()), reversed(own or ()), strict=False)
    return {d: size for d, size in pairs if isinstance(d, str) and d != "..." and isinstance(size, int)}
