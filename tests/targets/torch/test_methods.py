"""forward, setup_context, backward and jvp of emitted modules, against the composite."""

from __future__ import annotations

import ast
import re
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from compiled import OWN_SPECS, SPECS, Compiled, compiled, compiled_text, results
from torch.autograd import forward_ad

DERIVED = [p for p in OWN_SPECS if not p.stem.startswith("override")]


def stem(name: str) -> Compiled:
    return compiled(next(p for p in OWN_SPECS if p.stem == name))


def method(item: Compiled, name: str) -> ast.FunctionDef:
    """A method of the Function, as syntax."""
    tree = ast.parse(item.text)
    classes = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name.endswith("Function")]
    return next(n for c in classes for n in c.body if isinstance(n, ast.FunctionDef) and n.name == name)


@pytest.mark.parametrize("path", DERIVED, ids=lambda p: p.stem)
def test_each_wanted_gradient_is_right_and_no_other_is_made(path: Path) -> None:
    item = compiled(path)
    names = item.differentiable
    for setting in item.hyperparameters(3):
        for wanted in chain.from_iterable(combinations(names, r) for r in range(1, len(names) + 1)):
            tensors = item.tensors(wanted)
            found, plain = results(item.function(*tensors, *setting)), results(item.composite(*tensors, *setting))
            torch.testing.assert_close(found, plain)
            live = [k for k, y in enumerate(plain) if y.requires_grad]
            assert [k for k, y in enumerate(found) if y.requires_grad] == live
            for used in chain.from_iterable(combinations(live, r) for r in range(1, len(live) + 1)):
                leaves = [t for t in tensors if t.requires_grad]
                sums = [torch.stack([ys[k].sin().sum() for k in used]).sum() for ys in (found, plain)]
                own, right = (torch.autograd.grad(s, leaves, retain_graph=True, allow_unused=True) for s in sums)
                for a, b in zip(own, right, strict=True):
                    torch.testing.assert_close(
                        torch.tensor(0.0) if a is None else a, torch.tensor(0.0) if b is None else b
                    )


@pytest.mark.parametrize("path", OWN_SPECS, ids=lambda p: p.stem)
def test_one_value_is_returned_for_each_argument(path: Path) -> None:
    item = compiled(path)
    count = len(item.spec.tensors) + len(item.spec.hyperparameters)
    for node in ast.walk(method(item, "backward")):
        if isinstance(node, ast.Return):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            if isinstance(values[0], ast.Call) and getattr(values[0].func, "id", "") == "_once":
                values = values[0].args[1:]
            assert len(values) == count, ast.unparse(node)


@pytest.mark.parametrize("path", OWN_SPECS, ids=lambda p: p.stem)
def test_saved_tensors_are_read_once_and_nothing_is_changed(path: Path) -> None:
    item = compiled(path)
    for name in ("backward", "jvp"):
        node = method(item, name)
        reads = [n for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr == "saved_tensors"]
        branches = len(item.operation.variants())
        assert len(reads) <= branches
        calls = [n.func.attr for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
        changing = [c for c in calls if c.endswith("_") and not c.endswith("__")]
        assert not changing
        assert "item" not in calls
        added = [n.target for n in ast.walk(node) if isinstance(n, ast.AugAssign)]
        assert all(isinstance(t, ast.Name) and f"{t.id} = rt.Sum(" in ast.unparse(node) for t in added)


@pytest.mark.parametrize("path", OWN_SPECS, ids=lambda p: p.stem)
def test_arguments_are_left_as_they_are(path: Path) -> None:
    item = compiled(path)
    for setting in item.hyperparameters(2):
        tensors = item.tensors(item.differentiable)
        before = [t.detach().clone() for t in tensors]
        outputs = results(item.function(*tensors, *setting))
        addresses = {t.data_ptr() for t in tensors}
        assert all(y.data_ptr() not in addresses for y in outputs)
        live = [y for y in outputs if y.requires_grad]
        cotangents = [torch.ones_like(y) for y in live]
        torch.autograd.grad(live, [t for t in tensors if t.requires_grad], cotangents, allow_unused=True)
        assert all(torch.equal(t.detach(), b) for t, b in zip(tensors, before, strict=True))
        assert all(bool((c == 1).all()) for c in cotangents)


@pytest.mark.parametrize("path", [p for p in DERIVED if p.stem != "once_differentiable"], ids=lambda p: p.stem)
def test_second_derivatives_and_forward_mode(path: Path) -> None:
    item = compiled(path)
    for setting in item.hyperparameters(3):
        tensors = item.tensors(item.differentiable)
        wanted = [k for k, t in enumerate(tensors) if t.requires_grad]
        plain = tuple(tensors[k].detach() for k in wanted)

        def call(
            *values: torch.Tensor, function: Any, setting: Any = setting, tensors: Any = tensors, wanted: Any = wanted
        ) -> torch.Tensor:
            arguments = list(tensors)
            for k, v in zip(wanted, values, strict=True):
                arguments[k] = v
            found = [y for y in results(function(*arguments, *setting)) if y.is_floating_point()]
            return torch.stack([y.sin().sum() for y in found[:2]]).sum()

        tangents = tuple(t.cos() for t in plain)
        answers = []
        for function in (item.function, item.composite):

            def loss(*values: torch.Tensor, function: Any = function) -> torch.Tensor:
                return call(*values, function=function)

            gradient = torch.func.grad(loss, argnums=tuple(range(len(wanted))))
            answers.append(
                [
                    torch.func.jvp(loss, plain, tangents),
                    torch.func.jvp(gradient, plain, tangents)[1],
                    torch.func.vjp(gradient, *plain)[1](tangents),
                    torch.func.jvp(lambda *v, f=loss, t=tangents: torch.func.jvp(f, v, t)[1], plain, tangents)[1],
                ]
            )
        torch.testing.assert_close(*answers)


def test_a_mask_is_computed_only_where_it_is_wanted() -> None:
    item = stem("mask")
    (variant,) = (v for _, v in item.operation.variants())
    assert [s.source for s in variant.plan.base] == ["mask"]
    text = ast.unparse(method(item, "setup_context"))
    assert "if needs_x else None" in text


def test_what_a_mask_reads_twice_is_computed_once() -> None:
    item = compiled_text("\nop: f\ntensors: {x: }\noutputs: {y: 'clamp(x/6 + 1/2, 0, 1)'}\n")
    assert ast.unparse(method(item, "setup_context")).count("x / 6") == 1
    x = torch.linspace(-5, 5, 11).requires_grad_()
    (own,) = torch.autograd.grad(item.function(x).sum(), x)
    torch.testing.assert_close(own, ((x.abs() <= 3) / 6).detach())


def test_a_kept_intermediate_is_not_used_under_differentiation() -> None:
    item = stem("kept_intermediate")
    assert "is None" in ast.unparse(method(item, "backward"))
    tensors = item.tensors(item.differentiable)
    y = item.function(*tensors)
    first = torch.autograd.grad(y.sum(), tensors, create_graph=True)
    (again,) = torch.autograd.grad(first[0].sum(), tensors[0])
    x, scale = (t.detach().requires_grad_() for t in tensors)
    right = torch.autograd.grad((scale * x * torch.erf(x)).sum(), x, create_graph=True)
    torch.testing.assert_close(again, torch.autograd.grad(right[0].sum(), x)[0])


def test_a_second_derivative_that_is_not_wanted_raises() -> None:
    item = stem("once_differentiable")
    x = torch.linspace(-1, 1, 5, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(item.function(x).sum(), x, create_graph=True)
    torch.testing.assert_close(first.detach(), 3 * x.detach() ** 2)
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(first.sum(), x)
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.func.grad(torch.func.grad(lambda t: item.function(t).sum()))(torch.tensor(0.5))


def test_a_rule_that_is_not_linear_refuses_forward_mode() -> None:
    item = stem("override_nonlinear")
    x = torch.linspace(-2, 2, 5, requires_grad=True)
    (own,) = torch.autograd.grad(item.function(x), x, torch.tensor([-3.0, -0.5, 0.0, 0.5, 3.0]))
    torch.testing.assert_close(own, torch.tensor([-1.0, -0.5, 0.0, 0.5, 1.0]))
    with pytest.raises(RuntimeError, match="no forward mode in x"):
        torch.func.jvp(item.function, (x.detach(),), (x.detach(),))


def test_a_linear_rule_has_a_forward_mode() -> None:
    item = stem("override_linear")
    x, scale = item.tensors()
    tangents = torch.ones_like(x), torch.ones_like(scale)
    pushed = torch.func.jvp(item.function, (x, scale), tangents)[1]
    torch.testing.assert_close(pushed, (x.abs() <= 1).double() + x.sign())


def test_an_output_without_a_gradient_is_marked() -> None:
    item = stem("two_results")
    radius, angle, quadrant = item.function(*item.tensors(item.differentiable))
    assert radius.requires_grad
    assert angle.requires_grad
    assert not quadrant.requires_grad


def test_a_cotangent_of_which_nothing_depends_is_no_matter() -> None:
    """Only the output without a derivative is used: the other cotangent is undefined."""
    item = compiled_text("\nop: flat\ntensors: {x: , w: }\noutputs: {y: sin(x * w), z: sign(x * w)}\n")
    tensors = item.tensors(item.differentiable)
    _, flat = item.function(*tensors)
    assert all(g is None or not g.any() for g in torch.autograd.grad(flat.sum(), tensors, allow_unused=True))


@pytest.mark.parametrize("path", DERIVED, ids=lambda p: p.stem)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_results_have_the_dtypes_of_the_composite(path: Path, dtype: torch.dtype) -> None:
    item = compiled(path)
    for setting in item.hyperparameters(2):
        tensors = [
            t.detach().to(dtype).requires_grad_() if t.is_floating_point() else t
            for t in item.tensors(dtype=torch.float64)
        ]
        own, plain = results(item.function(*tensors, *setting)), results(item.composite(*tensors, *setting))
        assert [y.dtype for y in own] == [y.dtype for y in plain]
        live = [y for y in own if y.requires_grad]
        leaves = [t for t in tensors if t.requires_grad]
        for t, g in zip(leaves, torch.autograd.grad([y.sum() for y in live], leaves, allow_unused=True), strict=True):
            assert g is None or (g.dtype, g.shape) == (t.dtype, t.shape)
        precise = results(
            item.composite(*[t.detach().double() if t.is_floating_point() else t for t in tensors], *setting)
        )
        for a, b in zip(own, precise, strict=True):
            tolerance = 2 * torch.finfo(dtype).eps
            torch.testing.assert_close(a.double(), b.double(), rtol=tolerance, atol=tolerance)


def test_broadcast_gradients_have_the_shape_of_their_tensor() -> None:
    item = compiled_text("\nop: spread\ntensors: {x: , y: }\noutputs: {z: x * sin(y) + y}\n")
    for shapes in (((4, 3), (3,)), ((), (4, 3)), ((4, 1), (1, 3)), ((0, 3), (3,)), ((2, 1, 3), (4, 1))):
        x, y = (torch.rand(s, dtype=torch.float64, requires_grad=True) for s in shapes)
        found = torch.autograd.grad(item.function(x, y).sum(), (x, y))
        torch.testing.assert_close(found, torch.autograd.grad((x * y.sin() + y).sum(), (x, y)))


@pytest.mark.parametrize(
    "outputs",
    ["{y: (x - t)**2}", "{y: x + 1 + 0 * t}", "{y: 2 * x + sign(t)}", "{y: mean((x - t)**2)}", "{y: x, z: sign(t)}"],
)
@pytest.mark.parametrize("declared", ["", "{grad: false}"])
def test_where_the_only_tangent_is_one_that_does_not_matter(outputs: str, declared: str) -> None:
    """torch fails with an internal assertion where jvp returns None then."""
    item = compiled_text(f"\nop: labelled\ntensors: {{x: , t: {declared}}}\noutputs: {outputs}\n")
    x, t = item.tensors()
    jvp: Any = torch.func.jvp
    values, pushed = jvp(lambda t: item.function(x, t), (t,), (torch.ones_like(t),))
    torch.testing.assert_close(results(values), results(item.composite(x, t)))
    if declared:
        assert not any(p.any() for p in results(pushed))
    else:
        right = jvp(lambda t: item.composite(x, t), (t,), (torch.ones_like(t),))[1]
        torch.testing.assert_close(results(pushed), results(right))


def test_numbers_beside_tensors_compute_nothing_twice() -> None:
    item = compiled_text(
        "\nop: twice\ntensors: {x: }\nhyperparameters: {scale: 2.0}\noutputs: {y: 'hypot(x / scale, 1)'}\n"
    )
    for name in ("backward", "jvp"):
        assert "(x / scale).new_full" not in ast.unparse(method(item, name))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_backward_reads_what_is_saved_once(dtype: torch.dtype) -> None:
    item = stem("kept_intermediate")
    x, scale = (torch.tensor([0.3, -1.2], dtype=dtype, requires_grad=True) for _ in range(2))
    unpacked: list[int] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def unpack(tensor: torch.Tensor) -> torch.Tensor:
        unpacked.append(1)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = item.function(x, scale)
    found = torch.autograd.grad(y.sum(), (x, scale))
    kept = dtype is torch.float32  # of half precision, which is widened, nothing is
    assert len(unpacked) == 2 + kept
    true = torch.autograd.grad(item.composite(x, scale).sum(), (x, scale))
    torch.testing.assert_close(found, true, rtol=2e-2 if dtype is torch.bfloat16 else 1.3e-6, atol=1e-2)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_call_that_nothing_differentiates_goes_past_the_function(
    requires_grad: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = compiled_text("{op: product, tensors: {x: , y: }, outputs: {z: x * y}}")
    function = item.module.ProductFunction
    calls = list[Any]()
    own = function.setup_context

    def spied(*arguments: Any) -> None:
        calls.append(arguments)
        own(*arguments)

    monkeypatch.setattr(function, "setup_context", staticmethod(spied))
    x, y = torch.rand(2, 3)
    with torch.set_grad_enabled(not requires_grad):
        z = item.function(x.requires_grad_(requires_grad), y)
        assert torch.equal(z, x * y)
        assert not calls and not z.requires_grad
        _, tangent = torch.func.jvp(item.function, (x.detach(), y), (torch.ones(3), torch.zeros(3)))
        assert torch.equal(tangent, y)
    assert item.function(x.detach(), y.requires_grad_()).requires_grad
    assert calls


def test_forward_mode_keeps_an_override_where_autograd_records_nothing() -> None:
    item = compiled_text("{op: step, tensors: {x: }, outputs: {y: sign(x)}, gradients: {x: 3 * grad_y}}")
    with torch.no_grad(), forward_ad.dual_level():
        y = item.function(forward_ad.make_dual(torch.randn(3), torch.ones(3)))
        assert torch.equal(forward_ad.unpack_dual(y).tangent, torch.full((3,), 3.0))


@pytest.mark.parametrize("formula", ["x.T", "x.mT", "transpose(x, 0, 1)", "einsum('ij->ji', x)", "einsum('ii->i', x)"])
def test_no_output_is_a_view(formula: str) -> None:
    item = compiled_text(f'{{op: f, tensors: {{x: }}, outputs: {{y: "{formula}", z: "2 * x", w: "2 * x.T"}}}}')
    x = torch.rand(3, 3, requires_grad=True)
    own = item.function(x)
    storages = {t.untyped_storage().data_ptr() for t in (x, *own)}
    assert len(storages) == 4
    for y, right in zip(own, item.composite(x), strict=True):
        assert torch.equal(y.add_(1), right + 1)


@pytest.mark.parametrize(
    "formula",
    ["sin(x).T", "sin(x)[:, 1:]", "sum(x, dim=1)[:, None]", "(sin(w)[:, None] + 0*u).T", "sort(x, dim=0).values[0]"],
)
def test_results_that_autograd_records_may_be_changed_in_place(formula: str) -> None:
    """A view that was made inside a Function may not, nor may what has one place in memory for several elements."""
    shapes = "x: {shape: [N, D]}, w: {shape: [D]}, u: {shape: [M]}"
    item = compiled_text(f'{{op: f, tensors: {{{shapes}}}, outputs: {{y: "{formula}"}}}}')
    x, w, u = (torch.rand(s, requires_grad=True) for s in ((3, 3), (3,), (2,)))
    found = []
    for y in (item.function(x, w, u).mul_(3), 3 * item.composite(x, w, u)):
        found.append((y, *torch.autograd.grad(y.sum(), (x, w, u), materialize_grads=True)))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize(
    "soft", ["sigmoid((x + log(u) - log1p(-u))/0.7)", "tanh(x)", "exp(-x**2)", "x/u", "where(x > 0, x*u, u)"]
)
def test_what_is_passed_straight_through_is_exactly_what_is_detached(soft: str) -> None:
    text = f'op: f\ntensors: {{x: , u: }}\noutputs: {{y: "{soft} + detach(round({soft}) - {soft})"}}\n'
    item = compiled_text(text)
    x, u = (2 * torch.randn(2000)).requires_grad_(), 0.05 + 0.9 * torch.rand(2000)
    found, right = (f(x, u) for f in (item.function, item.composite))
    assert torch.equal(found, found.round())
    torch.testing.assert_close(*(torch.autograd.grad(y.sum(), x) for y in (found, right)))


@pytest.mark.parametrize(
    "formula", ["max(z, x) - (y - x)", "relu(amin(y))", "einsum('ij->j', amax(x, dim=0, keepdim=True)) + y"]
)
def test_a_number_takes_the_dtype_of_what_is_there_where_masks_alone_are_saved(formula: str) -> None:
    item = compiled_text(f'{{op: f, tensors: {{x: , y: , z: }}, outputs: {{o: "{formula}"}}}}')
    _same_derivatives(item, (2, 3))


def test_backward_may_read_the_shape_of_what_is_not_computed() -> None:
    item = compiled_text("""
        op: f
        tensors: {y: , z: }
        outputs: {o: "sort(einsum('ii->i', softplus(y) @ (-z).mT), dim=-1).values"}
    """)
    _same_derivatives(item, (3, 3))


def _same_derivatives(item: Compiled, shape: tuple[int, ...]) -> None:
    """The function's gradients and tangents are the composite's, in half precision as well."""
    names = [t.name for t in item.spec.tensors]
    tensors = [torch.rand(shape, dtype=torch.float64, requires_grad=True) for _ in names]
    for kind, tolerance in ((torch.float64, 1e-12), (torch.bfloat16, 0.1)):
        given = [t.detach().to(kind).requires_grad_() for t in tensors]
        own, right = (
            torch.autograd.grad(f(*given).sin().sum(), given, materialize_grads=True)
            for f in (item.function, item.composite)
        )
        torch.testing.assert_close(own, right, rtol=tolerance, atol=tolerance)
        primals = tuple(t.detach() for t in given)
        own, right = (torch.func.jvp(f, primals, primals)[1] for f in (item.function, item.composite))
        torch.testing.assert_close(own, right, rtol=tolerance, atol=tolerance)


def test_a_cotangent_of_an_output_without_slope_gives_nothing() -> None:
    item = compiled_text("\nop: flat\ntensors: {x: }\noutputs: {y: sin(x), one: erf(x) + erfc(x)}\n")
    for dtype in (torch.float16, torch.float32):
        x = torch.tensor([0.5, -1.0], dtype=dtype, requires_grad=True)
        _, one = item.function(x)
        (gradient,) = torch.autograd.grad(one.sum(), x, allow_unused=True)
        assert gradient is None or not gradient.any()


def test_a_branch_that_leaves_a_number_gives_a_tensor() -> None:
    item = compiled_text(
        "\nop: number\ntensors: {x: , w: {default: 0}}\nhyperparameters: {flag: false}\n"
        "outputs: {y: 'x + w', z: 'where(flag, x, 1)', v: w**2}\n"
    )
    x = torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True)
    y, z, v = item.function(x, None)
    assert (z.tolist(), v.tolist()) == ([1.0, 1.0], [0.0, 0.0])
    assert z.dtype == v.dtype == x.dtype
    torch.testing.assert_close(torch.autograd.grad(y.sum() + z.sum() + v.sum(), x), (torch.ones_like(x),))


@pytest.mark.parametrize("base", [2.0, 0.5, 0.0, 0])
def test_a_power_of_a_number_is_that_of_torch_also_for_zero(base: float) -> None:
    text = "\nop: growth\ntensors: {x: }\nhyperparameters: {c: 2.0}\noutputs: {y: %s**x}\n"
    for item, settings in ((compiled_text(text % "c"), (float(base),)), (compiled_text(text % base), (2.0,))):
        x = torch.tensor([0.5, 2.0, 1.0, 0.0], dtype=torch.float64, requires_grad=True)
        found, plain = item.function(x, *settings), float(base) ** x
        torch.testing.assert_close(found, plain)
        own, right = (torch.autograd.grad((y + 0 * x).sum(), x)[0] for y in (found, plain))
        torch.testing.assert_close(own, right)


def test_what_all_branches_compute_stands_before_them() -> None:
    item = stem("str_choices")
    lines = ast.unparse(method(item, "backward")).splitlines()
    (shared,) = (k for k, line in enumerate(lines) if line.strip() == "diff = x - target")
    assert shared < min(k for k, line in enumerate(lines) if " == " in line and "dtype" not in line)


def test_what_is_one_of_the_results_stands_before_the_branches_too() -> None:
    item = compiled_text(
        "\nop: f\ntensors: {x: , t: {grad: false}}\n"
        "hyperparameters: {how: {type: str, default: mean, choices: [none, mean, sum]}}\n"
        "let: {each: t * sin(x)}\n"
        'outputs: {y: \'where(how == "mean", mean(each), where(how == "sum", sum(each), each))\'}\n'
    )
    assert ast.unparse(method(item, "forward")).count("torch.sin(x)") == 1
    backward = ast.unparse(method(item, "backward"))
    assert "how == 'mean'" in backward and "how == 'sum'" not in backward, "sum and none are one branch"
    x, t = torch.linspace(-2, 2, 5).requires_grad_(), torch.rand(5)
    for how in ("none", "mean", "sum"):
        own, right = (torch.autograd.grad(f(x, t, how).sum(), x)[0] for f in (item.function, item.composite))
        torch.testing.assert_close(own, right)


def test_what_one_gradient_alone_reads_is_not_computed_for_the_other_ones() -> None:
    """Where gamma is absent, x is kept for its own gradient alone, and may be absent as well."""
    item = compiled_text(
        "\nop: f\ntensors: {x: {shape: [N, C]}, gamma: {shape: [N], default: 1}}\n"
        "let: {d: 'x - mean(x, dim=[-2, -1], keepdim=True)'}\n"
        "outputs: {y: 'gamma[:, None] * d / sqrt(mean(d**2, dim=[-2, -1], keepdim=True) + 1)'}\n"
    )
    assert "d2" not in ast.unparse(method(item, "forward")), "one name for one value"
    x, gamma = torch.randn(3, 4, dtype=torch.float64), torch.rand(3, dtype=torch.float64)
    for args in ((x.requires_grad_(), None), (x, gamma.requires_grad_()), (x.detach(), gamma)):
        wanted = [a for a in args if a is not None and a.requires_grad]
        own, right = (torch.autograd.grad(f(*args).sin().sum(), wanted) for f in (item.function, item.composite))
        torch.testing.assert_close(own, right)


def test_a_tangent_is_expanded_once() -> None:
    (path,) = (p for p in SPECS if p.stem == "conv1d")
    item = compiled(path)
    assert "tangent_bias" in ast.unparse(method(item, "jvp"))
    assert ".expand(" not in ast.unparse(method(item, "jvp"))


def test_what_is_not_read_is_not_unpacked() -> None:
    item = compiled_text(
        "\nop: clipped\ntensors: {x: {shape: [n, k]}, weight: {shape: [m, k]}}\noutputs: {y: x @ weight.T}\n"
        "gradients: {x: 'clamp(grad_y @ weight, -1, 1)'}\n"
    )
    (unpacked,) = re.findall(r"(\w+, \w+) = saved$", item.text, re.MULTILINE)
    assert unpacked == "x, _"


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_number_in_forward_mode_has_the_dtype_and_the_device_of_the_tensor_it_was_made_of(device: str) -> None:
    """Nothing was saved and no tangent is sure to be there: the row of 0 was one of integers on a CPU."""
    text = "{op: f, tensors: {x: {shape: [B, N]}, w: {shape: [B, N]}, v: {shape: [N]}}, outputs: {y: '%s'}}"
    op = compiled_text(text % "softmax(x - x, dim=1) * (w - v)")
    x, w, v = (torch.ones(*size, dtype=torch.float64, device=device) for size in ((2, 3), (2, 3), (3,)))
    y, moved = torch.func.jvp(lambda t: op.function(x, w, t), (v,), (v,))
    assert (moved.dtype, moved.device, moved.shape) == (y.dtype, y.device, y.shape)
    if device == "cpu":
        torch.testing.assert_close(moved, torch.full((2, 3), -1 / 3, dtype=torch.float64))


def test_cotangents_that_meet_are_added_up_in_every_case_of_what_is_there_and_wanted() -> None:
    item = compiled_text(
        "\nop: f\ntensors: {x: {shape: [..., D]}, w: {shape: [..., D]}}\n"
        "let: {a: 'softmax(w * x, dim=-1)', b: 'softmax(a, dim=-1)', c: 'softmax(b, dim=-1)'}\n"
        "outputs: {u: 2 * a, v: 2 * b, y: 2 * c}\noptions: {kernels: none}\n"
    )
    assert "rt.added(" in ast.unparse(method(item, "backward"))
    x, w = (torch.randn(3, 4, dtype=torch.float64) for _ in range(2))
    for there in chain.from_iterable(combinations(range(3), k) for k in (1, 2, 3)):
        for wanted in ([0], [1], [0, 1]):
            args = [t.clone().requires_grad_(k in wanted) for k, t in enumerate((x, w))]
            inputs = [args[k] for k in wanted]
            ours, theirs = (
                torch.autograd.grad(sum(f(*args)[k].sin().sum() for k in there), inputs)
                for f in (item.function, item.composite)
            )
            torch.testing.assert_close(ours, theirs)


def test_a_gradient_that_cancels_at_last_is_none_though_other_outputs_have_theirs() -> None:
    """A column that a softmax does not see, beside outputs whose cotangents meet."""
    shapes = {"x": "[N, D]", "y": "[N, D]", "u": "[D]", "c": "[N, 1]"}
    tensors = ", ".join(f"{name}: {{shape: {shape}}}" for name, shape in shapes.items())
    tensors += ", k: {shape: [N], dtype: bool}, l: {shape: [N], dtype: int}, i: {shape: [N, D], dtype: int}"
    picked = "sum(where(k, -gather(log_softmax({}, dim=-1), -1, l[:, None])[:, 0], 0))"
    summed = "logcumsumexp(flip(x - y, dims=[-1]), dim=-1) * where(x*u < u, gather(x*u, -1, i), 0)"
    outputs = f"a: '{picked.format('x*u')}', b: '{picked.format('x - c')}', d: 'sin(mean(sum({summed}, dim=-1)))'"
    item = compiled_text(f"op: f\ntensors: {{{tensors}}}\noutputs: {{{outputs}}}\n")
    own = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((4, 3), (4, 3), (3,), (4, 1))]
    rest = torch.tensor([True, False, True, True]), torch.tensor([0, 2, 1, 1]), torch.randint(0, 3, (4, 3))
    found, right = (
        torch.autograd.grad(sum(f(*own, *rest)), own, materialize_grads=True) for f in (item.function, item.composite)
    )
    torch.testing.assert_close(found, right)


@pytest.mark.parametrize("slope", ["0.2", "s"])
def test_leaky_relu_is_one_operation_in_forward_and_backward(slope: str) -> None:
    item = compiled_text(
        f"op: f\ntensors: {{x: {{shape: [N, D]}}, a: {{shape: [D]}}}}\nhyperparameters: {{s: 0.1}}\n"
        f"outputs: {{y: 'sum(leaky_relu(x, {slope}) * a, dim=-1)'}}\n"
    )
    assert "torch.where" not in item.text
    x, a = torch.randn(3, 4, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    x[0, 0] = 0.0
    found, right = (
        torch.autograd.grad(f(x.requires_grad_(), a.requires_grad_(), 0.1).sum(), (x, a))
        for f in (item.function, item.composite)
    )
    torch.testing.assert_close(found, right)
