"""What users call: signatures, checks, the in-place variant and the forms for compilers."""

from __future__ import annotations

import inspect
import re
import sys
import types
import typing
from pathlib import Path
from typing import Any

import pytest
import torch
from compiled import OWN_SPECS, SAMPLE, Compiled, compiled, compiled_text, results
from torch.func import jacfwd, jacrev

import symgrad
from symgrad.targets.torch.public import literal

ALL = SAMPLE


def stem(name: str) -> Compiled:
    return compiled(next(p for p in OWN_SPECS if p.stem == name))


@pytest.mark.parametrize("path", ALL, ids=lambda p: p.stem)
def test_a_signature_is_that_of_the_spec(path: Path) -> None:
    item = compiled(path)
    signature = inspect.signature(item.function)
    assert list(signature.parameters) == [
        *(t.name for t in item.spec.tensors),
        *(h.name for h in item.spec.hyperparameters),
    ]
    for h in item.spec.hyperparameters:
        default = signature.parameters[h.name].default
        assert default is inspect.Parameter.empty if h.default is None else default == h.default
    hints = typing.get_type_hints(item.function)
    count = len(item.spec.outputs)
    assert hints["return"] == (torch.Tensor if count == 1 else types.GenericAlias(tuple, (torch.Tensor,) * count))
    assert all(n in hints for n in signature.parameters)
    assert set(item.module.__all__) == {n for n in vars(item.module) if n in item.module.__all__}
    assert item.spec.op in item.module.__all__
    assert item.module.__all__ == sorted(item.module.__all__)


@pytest.mark.parametrize("value", [1.0, -2.5, 3, True, "a", 'a"b', "a'b", "\\", "{x}", 1e300, 1e-300, 0.1])
def test_literals_are_read_as_they_are(value: Any) -> None:
    assert eval(literal(value)) == value
    assert type(eval(literal(value))) is type(value)


# ---------------------------------------------------------------------------------------------- checks
def test_domains_are_checked() -> None:
    item = stem("branches")
    x = torch.ones(2)
    for slope in (0.0, 1.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"branches: slope must be in \(0, 1\)"):
            item.function(x, slope=slope)
    item.function(x, slope=0.999)


@pytest.mark.parametrize(
    "domain, inside, outside",
    [
        ("(0, oo)", [1e-9, 1e9], [0.0, -1.0]),
        ("[0, oo)", [0.0], [-1e-9]),
        ("(-oo, 3]", [3.0, -1e9], [3.1]),
        ("[-1, 1)", [-1.0, 0.5], [1.0, -1.5]),
        ("(-oo, oo)", [0.0, 1e30], []),
        ("(1e-3, 1e20)", [1.0], [1e-3, 1e20]),
    ],
)
def test_every_kind_of_interval(domain: str, inside: list[float], outside: list[float]) -> None:
    item = compiled_text(
        "\nop: kinds\ntensors: {x: }\n"
        f"hyperparameters: {{h: {{type: float, domain: '{domain}'}}}}\noutputs: {{y: x * h}}\n"
    )
    for value in inside:
        torch.testing.assert_close(item.function(torch.ones(1), value), torch.tensor([value]))
    for value in [*outside, *([float("nan")] if outside else [])]:
        with pytest.raises(ValueError, match="kinds: h must be in"):
            item.function(torch.ones(1), value)


def test_choices_and_types_are_checked() -> None:
    item = stem("str_choices")
    x = torch.ones(2)
    with pytest.raises(ValueError, match="reduction must be none, mean or sum, not 'max'"):
        item.function(x, x, reduction="max")
    with pytest.raises(TypeError, match="reduction"):
        item.function(x, x, reduction=1)
    with pytest.raises(TypeError, match="flag"):
        stem("branches").function(x, flag=1.5)
    with pytest.raises(TypeError, match="n"):
        stem("int_and_bool").function(x, x.long(), x > 0, n=1.5)
    with pytest.raises(TypeError, match="n must be of type int, not True"):
        stem("int_and_bool").function(x, x.long(), x > 0, n=True)


def test_a_choice_may_be_called_as_what_the_body_needs() -> None:
    formula = 'where(torch == "a", t, where(torch == "b", -t, 2 * t))'
    item = compiled_text(
        f"{{op: f, tensors: {{t: }}, hyperparameters: {{torch: {{type: str, choices: [a, b, c]}}}}, "
        f"outputs: {{y: '{formula}'}}}}"
    )
    t = torch.ones(1)
    assert [item.function(t, torch=choice).item() for choice in "abc"] == [1, -1, 2]


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ("hyperparameters: {float: {type: int, domain: '(0, 9)'}}", 10),
        ("hyperparameters: {float: {type: str, choices: [a, b]}}", "c"),
        ("hyperparameters: {float: {type: int}}", "c"),
        ("tensors: {t: , float: {dtype: int}}", 0.5),
        ("tensors: {t: , float: {dtype: bool}}", 0.5),
        ("tensors: {t: , float: }", "c"),
        ("tensors: {t: , float: {shape: [C]}}", torch.ones(2, 2)),
        ("hyperparameters: {float: {type: int}}, outputs: {y: 'sum(t, dim=float)'}", 7),
    ],
)
def test_messages_name_arguments_as_the_spec_does(declared: str, value: Any) -> None:
    formula = 'where(float == "a", t, 2)' if "str" in declared else "where(float, t, 1)"
    formula = formula if "str" in declared or "bool" in declared else "t * float"
    parts = [declared]
    parts += ["tensors: {t: }"] * ("tensors" not in declared) + [f"outputs: {{y: '{formula}'}}"] * (
        "y:" not in declared
    )
    with pytest.raises((TypeError, ValueError, IndexError), match=r"\bfloat\b(?!_)"):
        compiled_text(f"{{op: f, {', '.join(parts)}}}").function(torch.ones(1), float=value)


def test_tensors_are_checked() -> None:
    x = torch.ones(2)
    with pytest.raises(TypeError, match="complex"):
        stem("kept_intermediate").function(x * 1j, x)
    for wrong in (None, [1.0, 2.0], "x", x.numpy()):
        with pytest.raises(TypeError, match="kept_intermediate: scale must be a tensor, not"):
            stem("kept_intermediate").function(x, wrong)
    with pytest.raises(TypeError, match="optional_tensor: x must be a tensor, not None"):
        stem("optional_tensor").function(None)
    for wrong in (1.0, None, "x", x * 1j):
        with pytest.raises(TypeError, match="mask: expected a real tensor"):
            stem("mask").function(wrong)
    item = stem("int_and_bool")
    with pytest.raises(TypeError, match="count must be a tensor of integers"):
        item.function(x, x, x > 0)
    with pytest.raises(TypeError, match="mask must be a bool tensor"):
        item.function(x, x.long(), x)


def test_shapes_are_checked() -> None:
    item = stem("named_shapes")
    item.function(torch.ones(2, 3, 4), torch.ones(3))
    for x, bias in (((2, 3), (3,)), ((2, 3, 4), (4,)), ((2, 3, 4), ()), ((2, 3, 4), (1, 3))):
        with pytest.raises(ValueError, match="named_shapes"):
            item.function(torch.ones(x), torch.ones(bias))


def test_numbers_stand_for_tensors_of_integers_and_masks() -> None:
    item = compiled_text(
        "op: num\ntensors: {x: , k: {dtype: int}, m: {dtype: bool}}\noutputs: {y: 'where(m, x*k, 0)'}\n"
    )
    x = torch.tensor([1.5, 2.0], requires_grad=True)
    assert item.function(x, 2, True).tolist() == [3.0, 4.0]
    assert item.function(x.half(), 2, False).dtype == torch.float16
    for wrong in ((2.5, True), (True, True), (2, 1), (2, 1.0)):
        with pytest.raises(TypeError, match=r"must be a (tensor of integers|bool tensor)"):
            item.function(x, *wrong)


def test_numbers_stand_for_tensors() -> None:
    item = stem("kept_intermediate")
    x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(item.function(x, 2.0), item.composite(x, torch.tensor(2.0, dtype=torch.float64)))
    assert item.function(x.float(), 2).dtype == torch.float32
    assert item.function(2.0, x).requires_grad


def test_an_optional_tensor_may_be_left_out() -> None:
    item = stem("optional_tensor")
    x = torch.rand(3)
    assert torch.equal(item.function(x), item.function(x, None))
    torch.testing.assert_close(item.function(x), x.tanh())
    torch.testing.assert_close(item.function(x, offset=1.0), x.tanh() + 1)


# ---------------------------------------------------------------------------------------------- variants
@pytest.mark.parametrize(
    "formula", ["2 * x + shift", "x * shift", "exp(x) + shift", "sin(x) * shift", "x + 1 + 0 * shift"]
)
def test_the_function_in_place_overwrites_its_argument_and_has_the_gradients(formula: str) -> None:
    item = compiled_text(
        f"\nop: changing\ntensors: {{x: , shift: }}\noutputs: {{y: '{formula}'}}\noptions: {{inplace: x}}\n"
    )
    first, shift = item.tensors(item.differentiable)
    base = first * 1.0
    version = base._version
    result = item.module.changing_(base, shift)
    assert result is base
    assert base._version > version
    torch.testing.assert_close(result, item.composite(first, shift))
    own = torch.autograd.grad(result.sin().sum(), (first, shift), allow_unused=True)
    right = torch.autograd.grad(item.composite(first, shift).sin().sum(), (first, shift), allow_unused=True)
    for a, b in zip(own, right, strict=True):
        torch.testing.assert_close(torch.zeros(()) if a is None else a, torch.zeros(()) if b is None else b)
    leaf = first.detach().clone().requires_grad_()
    with pytest.raises(RuntimeError, match="leaf"):
        item.module.changing_(leaf, shift)


@pytest.mark.parametrize("formula", ["exp(x)", "softmax(x, dim=-1)"])
def test_in_place_to_the_third_order(formula: str) -> None:
    item = compiled_text(f"\nop: over\ntensors: {{x: }}\noutputs: {{y: '{formula}'}}\noptions: {{inplace: x}}\n")
    x = torch.tensor([0.5, -1.0, 0.25], dtype=torch.float64)

    def overwriting(x: torch.Tensor) -> Any:
        return item.module.over_(x.clone())

    for transform in (lambda f: jacfwd(jacfwd(f)), lambda f: jacfwd(jacfwd(jacrev(f)))):
        torch.testing.assert_close(*(transform(f)(x) for f in (overwriting, item.composite)))


def test_in_place_is_batched() -> None:
    item = stem("in_place")
    x, shift = item.tensors()
    expected = item.composite(x, shift)
    changed = x.clone()
    result = torch.func.vmap(item.module.in_place_)(changed, shift)
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(changed, expected)


def test_the_form_for_compilers_has_the_same_value_and_gradient() -> None:
    item = stem("override_linear")
    tensors = item.tensors(item.differentiable)
    own, compiled = item.function(*tensors), item.surrogate(*tensors)
    torch.testing.assert_close(own, compiled)
    torch.testing.assert_close(*(torch.autograd.grad(y.sin().sum(), tensors) for y in (own, compiled)))


def test_the_form_for_compilers_of_several_outputs() -> None:
    item = compiled_text(
        "\nop: rounding\ntensors: {x: , w: }\n"
        "outputs: {a: sign(x) * w, b: round(x) + w}\ngradients: {x: grad_a + 2 * grad_b}\n"
    )
    tensors = item.tensors(item.differentiable)
    for part in ((0,), (1,), (0, 1)):
        grads = []
        for function in (item.function, item.surrogate):
            found = results(function(*tensors))
            grads.append(
                torch.autograd.grad(
                    sum((found[k].sum() * (k + 1) for k in part), torch.zeros(())), tensors, allow_unused=True
                )
            )
        for a, b in zip(*grads, strict=True):
            torch.testing.assert_close(torch.zeros(()) if a is None else a, torch.zeros(()) if b is None else b)


def test_calls_outside_of_transforms_do_not_bind_signatures(monkeypatch: pytest.MonkeyPatch) -> None:
    item = stem("output_reuse")

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("inspect.signature costs 12 us")

    monkeypatch.setattr(inspect, "signature", never)
    assert item.function(torch.ones(2)).shape == (2,)


def test_tracing_takes_the_formula() -> None:
    trace: Any = torch.jit.trace
    traced = trace(stem("output_reuse").function, torch.ones(3))
    torch.testing.assert_close(traced(torch.zeros(3)), torch.ones(3))


@pytest.mark.parametrize("name", ["besselj(1, x)", "lambertw(x)", "airy_ai(x)"])
def test_an_exported_program_has_the_derivatives_that_torch_lacks(name: str) -> None:
    """torch differentiates what was traced, and took these for constants."""
    item = compiled_text(f"\nop: lacking\ntensors: {{x: }}\noutputs: {{y: '{name}'}}\n")

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return item.function(x)

    x = torch.tensor([0.7, 1.5], dtype=torch.float64, requires_grad=True)
    program = torch.export.export(Net(), (x.detach(),)).module()
    own, right = (torch.autograd.grad(f(x).sum(), x)[0] for f in (program, item.function))
    torch.testing.assert_close(own, right)


def test_functions_are_documented() -> None:
    for path in ALL:
        item = compiled(path)
        for name in item.module.__all__:
            assert getattr(item.module, name).__doc__
        assert "Raises TypeError" in " ".join((item.function.__doc__ or "").split())


def test_the_form_for_compilers_goes_without_an_optional_tensor() -> None:
    item = compiled_text(
        "\nop: half_ruled\ntensors: {x: , w: , b: {default: 0}}\n"
        "outputs: {y: sigmoid(w*x + b)}\ngradients: {w: grad_y*x}\n"
    )
    x, w = (torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True) for _ in range(2))
    torch.testing.assert_close(item.surrogate(x, w, None), item.function(x, w, None))


def test_the_form_for_compilers_computes_nothing_twice() -> None:
    item = compiled_text(
        "\nop: steps\ntensors: {x: , step: {grad: false}}\noutputs: {y: step * round(x / step)}\n"
        "gradients: {x: 'where(abs(x / step) < 3, grad_y * (x / step)**2, 0)'}\n"
    )
    (body,) = re.findall(r"def surrogate.*?\n\n", item.text, re.DOTALL)
    assert body.count("fixed_x / fixed_step") == 1
    x = torch.tensor([0.4, -1.7, 9.0], requires_grad=True)
    step = torch.tensor(0.5)
    plain, compiled = (torch.autograd.grad(f(x, step).sum(), x) for f in (item.function, item.surrogate))
    torch.testing.assert_close(compiled, plain)


def test_compilers_leave_an_output_without_a_gradient_alone_where_another_one_is_overridden() -> None:
    item = compiled_text("""
        op: spike
        tensors: {v: }
        outputs:
          s: heaviside(v)
          count: {expr: "sum(heaviside(v), dim=-1)", grad: false}
        gradients: {v: grad_s / (1 + v**2)}
    """)
    v = torch.rand(2, 3, requires_grad=True)
    for f in (item.function, torch.compile(item.function, fullgraph=True, backend="eager")):
        spikes, count = f(v)
        assert (spikes.requires_grad, count.requires_grad, count.shape) == (True, False, (2,))
        torch.testing.assert_close(torch.autograd.grad(spikes.sum(), v)[0], 1 / (1 + v.detach() ** 2))


def test_a_symbolic_dimension_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    item = compiled_text("""
        op: widest
        tensors: {x: }
        hyperparameters: {dim: -1}
        outputs: {y: "max(x, dim=dim).values**2"}
    """)
    monkeypatch.setitem(sys.modules, "widest", item.module)
    traced = torch.compile(lambda x, dim: item.function(x, dim=dim), fullgraph=True, backend="eager", dynamic=True)
    for dim in (-1, 0, 1):
        x = torch.rand(2, 3, requires_grad=True)
        own, right = (torch.autograd.grad(f(x, dim).sum(), x) for f in (traced, item.function))
        torch.testing.assert_close(own, right)


def test_operations_of_one_name_compile_beside_each_other() -> None:
    """As a notebook has them, whose cell is run again with another formula."""
    x, compiled = torch.rand(2, 3), []
    for formula in ("softmax(x, dim=1)", "cumsum(x, dim=1)", "sin(x)"):
        again = symgrad.load(f"op: again\ntensors: {{x: }}\noutputs: {{y: '{formula}'}}\n").again
        compiled.append((torch.compile(lambda x, f=again: f(x) + 1, backend="eager"), again))
        for made, function in compiled:
            torch.testing.assert_close(made(x), function(x) + 1)


def test_an_operation_may_be_compiled_before_it_was_called() -> None:
    operation, x = symgrad.op("sin(x) * 3"), torch.rand(2, 3)
    torch.testing.assert_close(torch.compile(lambda x: operation(x) + 1, backend="eager")(x), 3 * x.sin() + 1)


def test_functions_of_symbolic_numbers_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    item = compiled_text("""
        op: numeric
        tensors: {x: }
        hyperparameters: {a: {default: 1.5, domain: "(0, oo)"}, n: 1}
        outputs: {y: x * log_ndtr(a) + a**2, z: "x * gammainc(a, 0.5)", w: "x * polygamma(n, a) * sigmoid(a)"}
    """)
    monkeypatch.setitem(sys.modules, "numeric", item.module)
    traced = torch.compile(item.function, fullgraph=True, backend="eager", dynamic=True)
    for a, n in ((0.5, 1), (2.5, 2)):
        x = torch.rand(2, 3, requires_grad=True)
        own, right = ([*f(x, a, n), *torch.autograd.grad(sum(f(x, a, n)).sum(), x)] for f in (traced, item.function))
        torch.testing.assert_close(own, right)


@pytest.mark.parametrize(
    ("tensors", "formula", "shapes", "told"),
    [
        ("x: {shape: [a, b]}", "sin(sum(x, dim=dim))", [(2, 3)], "dim must be in [-2, 1] for 2 dimensions, not 2"),
        ("x: , w: ", "softmax(x * w, dim=dim)", [(), (4,)], "dim must be in [-1, 0] for 1 dimensions, not 2"),
        ("float: ", "exp(sort(float, dim=dim).values)", [()], "dim must be in [-1, 0] for 0 dimensions, not 2"),
        ("x: ", "where(flag, sum(x, dim=dim), x)", [(3,)], None),  # only in one branch
        ("x: , b: {default: 0}", "sum(x + b, dim=dim)", [(3,), None], None),
        ("x: ", "norm(sum(x, dim=0), dim=dim)", [(2, 3)], None),
    ],
)
def test_a_hyperparameter_that_is_no_dimension_is_told_with_the_rank(
    tensors: str, formula: str, shapes: list[tuple[int, ...] | None], told: str | None
) -> None:
    settings = "hyperparameters: {dim: -1, flag: true}"
    item = compiled_text(f"op: f\ntensors: {{{tensors}}}\n{settings}\noutputs: {{y: '{formula}'}}\n")
    given = [None if s is None else torch.rand(s) for s in shapes]
    assert item.function(*given, dim=-1).isfinite().all()
    with pytest.raises(IndexError, match=re.escape(told or "Dimension out of range")):
        item.function(*given, dim=2)
    assert told is None or "IndexError where dim is out of range" in inspect.getdoc(item.function)
