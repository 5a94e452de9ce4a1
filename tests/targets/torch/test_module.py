"""The text of a module as a whole, and its nn.Module."""

from __future__ import annotations

import copy
import io
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from compiled import OWN_SPECS, SAMPLE, compiled, compiled_text

from symgrad.targets.torch.module import render_module
from symgrad.targets.torch.owner import MEMBERS


@pytest.mark.parametrize("path", OWN_SPECS, ids=lambda p: p.stem)
def test_rendering_again_gives_the_same(path: Path) -> None:
    assert render_module(compiled(path).operation).text == compiled(path).text


@pytest.mark.parametrize("path", SAMPLE, ids=lambda p: p.stem)
def test_the_parts_are_there(path: Path) -> None:
    item = compiled(path)
    name = "".join(part[:1].upper() + part[1:] for part in item.spec.op.split("_"))
    exported = {item.spec.op, f"{name}Function"}
    exported |= {name} if item.spec.module else set()
    exported |= {f"{item.spec.op}_"} if item.spec.options.inplace else set()
    assert exported <= set(item.module.__all__) <= exported | {f"{name}InplaceFunction"}
    function = getattr(item.module, f"{name}Function")
    assert issubclass(function, torch.autograd.Function)
    assert function.generate_vmap_rule is True
    assert "eval(" not in item.text
    assert ".data" not in item.text.replace(".data_ptr", "")


def test_constants_are_correctly_rounded_and_explained() -> None:
    item = compiled_text("\nop: constants\ntensors: {x: }\noutputs: {y: x * sqrt(2 / pi) + log(3)}\n")
    rows = [
        line
        for line in item.text.splitlines()
        if line.startswith("_") and "  # " in line and line.split(" = ")[0].isupper()
    ]
    assert {row.split("  # ")[1] for row in rows} == {"sqrt(2 / pi)", "log(3)"}
    values = sorted(float(row.split(" = ")[1].split("  #")[0]) for row in rows)
    assert values == [0.7978845608028654, 1.0986122886681098]


MODULE = """
op: owned
tensors: {x: , w: , b: }
hyperparameters: {power: 2, kind: {type: str, choices: [plain, shifted], default: plain}}
outputs: {y: 'w * x**power + where(kind == "plain", b, -b)'}
module: {parameters: {w: {init: 0.5, shape: [C]}, b: -1.0}}
"""


def owned(**arguments: Any) -> Any:
    return compiled_text(MODULE).module.Owned(**arguments)


@pytest.mark.parametrize(
    ("declared", "sizes", "shape"), [("[C, 3]", {"C": 2}, (2, 3)), ("[3]", {}, (3,)), ("[]", {}, ()), ("[...]", {}, ())]
)
def test_a_parameter_has_the_shape_that_its_tensor_declares(
    declared: str, sizes: dict[str, int], shape: tuple[int, ...]
) -> None:
    tensors = f"{{x: {{shape: [..., 3]}}, w: {{shape: {declared}}}}}"
    item = compiled_text(f"{{op: f, tensors: {tensors}, outputs: {{y: x * sum(w)}}, module: {{parameters: {{w: 2}}}}}}")
    made = item.module.F(**sizes)
    assert made.w.shape == shape and made(torch.ones(3)).tolist() == [2.0 * made.w.numel()] * 3


def test_a_module_owns_its_parameters() -> None:
    made = owned(C=3)
    assert {n: tuple(p.shape) for n, p in made.named_parameters()} == {"w": (3,), "b": ()}
    assert made.w.tolist() == [0.5] * 3
    assert made.b.item() == -1.0
    x = torch.rand(2, 3)
    torch.testing.assert_close(made(x), 0.5 * x**2 - 1)
    torch.testing.assert_close(owned(C=3, kind="shifted", power=3)(x), 0.5 * x**3 + 1)
    torch.testing.assert_close(owned(C=3, w=2.0)(x), 2 * x**2 - 1)


def test_a_module_is_made_on_device_and_dtype() -> None:
    made = owned(C=2, device="meta", dtype=torch.float64)
    assert all(p.is_meta and p.dtype == torch.float64 for p in made.parameters())
    empty = made.to_empty(device="cpu")
    empty.reset_parameters()
    assert empty.w.tolist() == [0.5, 0.5]


def test_a_module_shows_itself_and_is_copied() -> None:
    made = owned(C=2, power=3)
    assert "C=2" in repr(made)
    assert "power=3" in repr(made)
    other = copy.deepcopy(made)
    with torch.no_grad():
        other.w.add_(1)
    assert made.w.tolist() == [0.5, 0.5]
    other.load_state_dict(made.state_dict())
    assert torch.equal(other.w, made.w)


def test_a_module_is_pickled() -> None:
    module = compiled_text(MODULE).module
    sys.modules["owned"] = module
    try:
        made = pickle.loads(pickle.dumps(owned(C=2)))
        buffer = io.BytesIO()
        torch.save(made.state_dict(), buffer)
    finally:
        del sys.modules["owned"]
    assert made.w.tolist() == [0.5, 0.5]


def test_a_module_trains() -> None:
    made = owned(C=2)
    made(torch.rand(4, 2)).sum().backward()
    assert all(p.grad is not None and p.grad.shape == p.shape for p in made.parameters())


def test_a_wrong_hyperparameter_is_refused_at_the_call() -> None:
    with pytest.raises(ValueError, match="kind"):
        owned(C=2, kind="neither")(torch.ones(2))


ODD = """
op: scale
tensors: {scale: , self: , weight: {shape: [dtype]}, parameters: , _apply: }
hyperparameters: {dtype: 1.5, device: true, initial_self: 1, int: 2}
outputs: {y: "where(device, scale*self*dtype + parameters**int, _apply*weight*initial_self)"}
module: {parameters: {self: 0.5, weight: {init: 1.0, shape: [dtype]}, parameters: 2.0, _apply: 0.25}}
"""


def test_a_module_has_room_for_every_name() -> None:
    item = compiled_text(ODD)
    module = item.module.Scale(3, device_=False)
    assert sorted(module.state_dict()) == ["apply_", "parameters_", "self_", "weight"]
    assert [p.numel() for p in module.parameters()] == [1, 3, 1, 1]
    torch.testing.assert_close(module(torch.ones(3)), 0.25 * torch.ones(3))
    torch.testing.assert_close(item.module.Scale(3)(torch.ones(3)), torch.full((3,), 0.75 + 4))


@pytest.mark.parametrize("name", ["training", "type", "torch", "device", "float", "forward", "_x", "__x__", "int"])
def test_a_constructor_calls_hyperparameters_as_the_spec_does(name: str) -> None:
    text = f"{{op: f, tensors: {{t: }}, hyperparameters: {{{name}: 1.5}}, outputs: {{y: t * {name}}}, module: }}"
    made = compiled_text(text).module.F(**{name: 2.5})
    assert made(torch.ones(1)).item() == 2.5
    assert repr(made) == f"F({name}=2.5)"


def test_a_constructor_calls_parameters_as_the_spec_does() -> None:
    module = "{parameters: {training: 2, _w: 1}}"
    text = f"{{op: f, tensors: {{t: , training: , _w: }}, outputs: {{y: t * training + _w}}, module: {module}}}"
    made = compiled_text(text).module.F(training=3.0, _w=4.0)
    assert made(torch.ones(1)).item() == 7.0
    assert repr(made) == "F(training=3.0, _w=4.0)"


def test_the_members_of_a_module_are_known() -> None:
    public = {n for n in dir(torch.nn.Module()) if not n.startswith("_")}
    assert public <= MEMBERS
