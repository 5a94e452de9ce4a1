"""What generated modules share: each helper does what it says, and private names of torch may be missing."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import mpmath as mp
import pytest
import torch
from compiled import compiled_text
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

from symgrad.targets.torch.runtime import _runtime as rt


def test_tensors_are_widened_to_one_dtype() -> None:
    single, double, whole = torch.ones(2), torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.int64)
    assert rt.widen(single, single, None, whole) == (single, single, None, whole, None)
    half = torch.ones(2, dtype=torch.bfloat16)
    wide, same, dtype = rt.widen(half, None)
    assert (wide.dtype, same, dtype) == (torch.float32, None, torch.bfloat16)
    assert rt.widen(half, torch.ones(2, dtype=torch.float16))[2] == torch.float32
    for narrow in (single, half):
        *found, untouched, dtype = rt.widen(narrow, double, whole)
        assert [t.dtype for t in found] == [torch.float64, torch.float64]
        assert (untouched, dtype) == (whole, torch.float64)
    *found, dtype = rt.widen(single, torch.ones((), dtype=torch.float64))  # which decides nothing
    assert ([t.dtype for t in found], dtype) == ([torch.float32] * 2, torch.float32)


def test_a_result_is_rounded_to_a_floating_dtype_only() -> None:
    value = torch.tensor([0.5, 1.5])
    assert rt.narrow(value, torch.int64) is value
    assert rt.narrow(value, torch.float32) is value
    assert rt.narrow(value, torch.float16).dtype == torch.float16


def test_wide_formulas_are_evaluated_in_double() -> None:
    wide, flags, dtype = rt.widen_to_double(torch.ones(2), torch.ones(2, dtype=torch.bool))
    assert (wide.dtype, flags.dtype, dtype) == (torch.float64, torch.bool, torch.float32)  # a condition stays one
    double = torch.ones(2, dtype=torch.float64)
    assert rt.widen_to_double(double) == (double, None)
    assert rt.widen_to_double(torch.ones(2, dtype=torch.int64))[1] == torch.get_default_dtype()


def test_numbers_become_tensors_that_leave_the_dtype() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        x = torch.ones(3, dtype=dtype)
        own, number = rt.tensors("op", x=x, w=2.5)
        assert own is x
        assert (own * number).dtype == (dtype if dtype in (torch.float32, torch.float64) else (x * number).dtype)
        assert number.dim() == 0
    assert rt.tensors("op", x=torch.ones(3, dtype=torch.int64), w=2.5)[1].dtype == torch.get_default_dtype()
    assert rt.tensors("op", ("w",), x=torch.ones(3), w=None)[1] is None
    for wrong in (1j, torch.ones(2, dtype=torch.complex64)):
        with pytest.raises(TypeError, match="op: complex arguments are not supported, and w is one"):
            rt.tensors("op", x=torch.ones(2), w=wrong)
    for other in (None, "a", [1.0]):
        with pytest.raises(TypeError, match="op: w must be a tensor, not"):
            rt.tensors("op", x=torch.ones(2), w=other)


def test_result_types_are_those_of_torch() -> None:
    kinds = [torch.bool, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]
    for a in kinds:
        for b in kinds:
            for shapes in (((2,), (2,)), ((2,), ()), ((), (2,)), ((), ())):
                tensors = [torch.ones(s, dtype=d) for s, d in zip(shapes, (a, b), strict=True)]
                floating = torch.result_type(*tensors)
                if floating.is_floating_point and any(t.dim() and t.dtype.is_floating_point for t in tensors):
                    assert rt.result_dtype(*tensors) == floating


def test_floats_made_of_integers_in_totals_have_no_dimensions_and_no_weight_where_none_are_made() -> None:
    k, single, double = torch.arange(3), torch.rand(3), torch.rand(3).double()
    assert rt.result_dtype(double.half(), rt.made(k)) == torch.float32
    assert rt.result_dtype(double.half(), rt.made(k, shaped=())) == torch.float16
    assert rt.result_dtype(double.sum(), rt.made(single, k, shaped=(k,))) == torch.float64
    assert rt.result_dtype(single, rt.made(double, None)) == torch.float32


def test_whole_numbers_are_floats_of_what_is_beside_them_and_never_narrowed() -> None:
    k, half, double = torch.arange(3), torch.rand(3).half(), torch.rand(3).double()
    assert rt.as_float(k, None).dtype == rt.as_float(k, k, half).dtype == torch.float32
    assert rt.as_float(k, double, None).dtype == rt.as_float(k.double(), half).dtype == torch.float64
    assert rt.as_float(k, rt.floated(k), double.sum()).dtype == torch.float32


def test_a_function_of_an_integer_counts_as_torch_counts_it() -> None:
    for x in (torch.rand(3).half(), torch.rand(()).half(), torch.rand(3), torch.rand(()).double()):
        for k in (torch.tensor([1, 2, 3]), torch.tensor(2)):
            assert rt.result_dtype(rt.floated(k), x) == (torch.log(k) * x).dtype


@pytest.mark.parametrize(
    "shapes", [((2, 3), (3,)), ((2, 3), ()), ((4, 1), (1,)), ((2, 0), (0,)), ((3,), (3,)), ((2, 3), (2, 1))]
)
def test_a_gradient_is_summed_then_rounded(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    ctx = SimpleNamespace(inputs=[(torch.Size(shapes[1]), torch.float64), (torch.Size([]), torch.float32)])
    own = torch.ones(shapes[0])
    fitted = rt.fit(ctx, 0, own)
    assert fitted is not None and fitted.shape == shapes[1] and fitted.dtype == torch.float64
    assert fitted.sum() == own.sum()
    many = rt.fit(ctx, 1, torch.ones(70_000, dtype=torch.float16).float())
    assert many is not None and many.item() == 70_000


def test_what_is_put_along_a_dimension_has_derivatives_of_any_order() -> None:
    value, index = torch.tensor([[5.0], [7.0]], dtype=torch.float64), torch.tensor([[2], [0]])
    expected = torch.tensor([[0.0, 0.0, 5.0], [7.0, 0.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(rt.put_along(value, index, (2, 3), 1), expected)
    assert torch.autograd.gradgradcheck(lambda v: rt.put_along(v, index, (2, 3), 1), value.requires_grad_())
    batched = vmap(lambda v, i: rt.put_along(v, i, (3,), 0))(value.detach(), index)
    torch.testing.assert_close(batched, expected)


def test_what_is_added_along_a_dimension_is_right_in_reverse_over_reverse_and_in_batches() -> None:
    """Zeros are written to in place, but where a transformation forbids that: there an index may be batched alone."""
    value, index = torch.tensor([[5.0, 1.0], [7.0, 2.0]], dtype=torch.float64), torch.tensor([[2, 2], [0, 1]])
    expected = torch.tensor([[0.0, 0.0, 6.0], [7.0, 2.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(rt.add_along(value, index, (2, 3), 1), expected)
    torch.testing.assert_close(rt.add_slices(value, index, (3,), 0), torch.tensor([7.0, 2.0, 6.0]).double())
    torch.testing.assert_close(rt.segment_sum(value[0], index[0], 3, 0), expected[0])
    own = torch.ones(2, dtype=torch.float64)
    for function in (
        lambda v, i: rt.add_along(v, i, (3,), 0),
        lambda v, i: rt.add_slices(v, i, (3,), 0),
        lambda v, i: rt.segment_sum(v, i, 3, 0),
    ):
        alone = torch.stack([function(own, i) for i in index])
        torch.testing.assert_close(vmap(function, (None, 0))(own, index), alone)
        fixed = partial(function, i=index[0])
        assert torch.autograd.gradgradcheck(lambda v, f=fixed: f(v) ** 2, value[0].requires_grad_())


def test_shapes_are_refused_by_name() -> None:
    x, b = torch.ones(2, 3, 5), torch.ones(3)
    rt.refuse_shapes("op", x=(x, ("N", "C", "T")), b=(b, ("C",)), none=(None, ("C",)))
    rt.refuse_shapes("op", x=(x, ("...", "C", 5)), b=(b, ("C",)))
    for shapes in (
        {"x": (x, ("N", "C"))},
        {"x": (x, ("N", "C", 4))},
        {"x": (x, ("N", "C", "T")), "b": (b, ("T",))},
        {"x": (x, ("N", "N", "T"))},
        {"b": (b, ("...", "A", "B"))},
    ):
        with pytest.raises(ValueError, match=r"^op: "):
            rt.refuse_shapes("op", **shapes)


def test_hyperparameters_may_be_numbers_of_numpy() -> None:
    numpy = pytest.importorskip("numpy")
    found = rt.hyperparameter("op", "a", numpy.float32(0.5), float)
    assert type(found) is float and found == 0.5
    assert rt.hyperparameter("op", "n", numpy.int64(3), int) == 3
    assert type(rt.hyperparameter("op", "a", 2, float)) is int  # as it was given
    for value, kind in ((True, float), (1.5, int), ("a", float), (1, bool), (torch.ones(()), float)):
        with pytest.raises(TypeError, match="op: a must be of type"):
            rt.hyperparameter("op", "a", value, kind)


def test_integers_that_torch_does_not_take_are_floats_or_refused() -> None:
    assert rt.hyperparameter("op", "a", 10**30, float) == 1e30
    with pytest.raises(ValueError, match="op: a is too large for a float"):
        rt.hyperparameter("op", "a", -(10**400), float)


# ----------------------------------------------------------------------------- outputs batched unlike
SPLIT = "{op: split, tensors: {x: , y: }, outputs: {a: sin(x) * y, b: cos(x)}}"


@pytest.mark.parametrize("in_dims", [(None, 0), (0, None), (0, 0)], ids=str)
@pytest.mark.parametrize("transform", [grad, jacrev, jacfwd, hessian], ids=lambda f: f.__name__)
def test_an_output_that_is_not_batched_counts_once(transform: Any, in_dims: tuple[int | None, int | None]) -> None:
    item = compiled_text(SPLIT)
    x = torch.rand(3, dtype=torch.float64) if in_dims[0] is None else torch.rand(4, 3, dtype=torch.float64)
    y = torch.rand(3, dtype=torch.float64) if in_dims[1] is None else torch.rand(4, 3, dtype=torch.float64)

    def derived(f: Any) -> Any:
        return transform(lambda x, y: sum(t.sin().sum() for t in f(x, y)), (0, 1))

    def outside(f: Any) -> Any:
        return transform(lambda x, y: sum(t.sin().sum() for t in vmap(f, in_dims)(x, y)), (0, 1))

    torch.testing.assert_close(
        vmap(derived(item.function), in_dims)(x, y), vmap(derived(item.composite), in_dims)(x, y)
    )
    torch.testing.assert_close(outside(item.function)(x, y), outside(item.composite)(x, y))


# --------------------------------------------------------------------------------- private names of torch
@contextmanager
def without(*names: tuple[Any, str]) -> Iterator[ModuleType]:
    """The runtime, imported anew where torch has not these private names."""
    removed = [(owner, name, getattr(owner, name)) for owner, name in names]
    for owner, name, _ in removed:
        delattr(owner, name)
    try:
        spec = importlib.util.spec_from_file_location("runtime_without_names", Path(rt.__file__))
        assert spec is not None and spec.loader is not None
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        for owner, name, value in removed:
            setattr(owner, name, value)


C, FUNCTORCH, AD = torch._C, torch._C._functorch, torch.autograd.forward_ad
PRIVATE = [
    (C, "_functorch"),
    (torch.compiler, "_is_exporting_flag"),
    (C, "_are_functorch_transforms_active"),
    (C, "_is_tracing"),
    (AD, "_set_fwd_grad_enabled"),
    (AD, "_current_level"),
    (FUNCTORCH, "is_batchedtensor"),
    (FUNCTORCH, "is_functorch_wrapped_tensor"),
    (FUNCTORCH, "get_unwrapped"),
    (FUNCTORCH, "maybe_get_level"),
    (FUNCTORCH, "maybe_get_bdim"),
    (FUNCTORCH, "_add_batch_dim"),
]
KEPT = "{op: kept, tensors: {x: , scale: }, outputs: {y: scale * x * erf(x)}}"


def test_all_private_names_are_known_here() -> None:
    text = Path(rt.__file__).read_text()
    read = {
        name
        for name in dir(C) + dir(FUNCTORCH) + dir(AD) + dir(torch.compiler)
        if name.startswith("_") and f'"{name}"' in text
    }
    read |= {name for name in dir(FUNCTORCH) if f'"{name}"' in text}
    assert read - {"__doc__"} == {name for _, name in PRIVATE}


@pytest.mark.parametrize("owner, name", PRIVATE, ids=lambda x: x if isinstance(x, str) else "")
def test_without_a_private_name_gradients_are_right(owner: Any, name: str) -> None:
    item = compiled_text(KEPT)
    with without((owner, name)) as other:
        assert other.entry is not rt.entry
    function = other.entry(
        item.module.KeptFunction,
        residuals=item.module.KeptFunction.forward.__annotations__["return"].count("Tensor") - 1,
    )
    x, scale = (torch.rand(3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    own, right = (
        torch.autograd.grad(f(x, scale).sin().sum(), (x, scale), create_graph=True) for f in (function, item.composite)
    )
    torch.testing.assert_close(own, right)
    second, expected = (torch.autograd.grad(g[0].sum(), (x, scale)) for g in (own, right))
    torch.testing.assert_close(second, expected)
    primals, tangents = (x.detach(), scale.detach()), (torch.ones(3).double(), torch.rand(3).double())
    torch.testing.assert_close(jvp(function, primals, tangents), jvp(item.composite, primals, tangents))
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(p, t) for p, t in zip(primals, tangents, strict=True)]
        torch.testing.assert_close(*(forward_ad.unpack_dual(f(*duals)).tangent for f in (function, item.composite)))


@pytest.mark.parametrize("size", [2, 7, 1000, 30_000])
def test_the_variance_of_equal_numbers_is_zero_and_of_others_is_not(size: int) -> None:
    for value in (3.7, 1e-3, 123456.7, -1 / 3):
        x = torch.full((2, size), value)
        assert (rt.var(x, 1) == 0).all()
        x[0, 0] *= 1 + 2e-7
        torch.testing.assert_close(rt.var(x, 1), x.double().var(1).float(), rtol=1e-4, atol=0)
    x = torch.full((5,), 3.7, dtype=torch.float64, requires_grad=True)
    hessian = torch.autograd.functional.hessian(lambda t: rt.var(t, 0), x)
    torch.testing.assert_close(hessian, torch.autograd.functional.hessian(lambda t: t.var(), x))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("btm,btd,bdm->bt", ((2, 5, 3), (2, 5, 4), (2, 4, 3))),
        ("btd,kd,hk->bth", ((2, 5, 4), (3, 4), (6, 3))),
        ("ir,jr,kr->ijk", ((3, 2), (4, 2), (5, 2))),
        ("...i,ij,...j->...", ((2, 3), (3, 4), (2, 4))),
        ("i,ij,jk,k->", ((3,), (3, 4), (4, 5), (5,))),
        ("bi,bi,bj->bij", ((2, 1), (2, 3), (2, 4))),
    ],
)
def test_einsum_of_several_operands_is_torchs_and_multiplies_the_smallest_pair_first(
    equation: str, shapes: tuple[tuple[int, ...], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    operands = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    sizes = []
    contracted = rt._contracted

    def recorded(*args: Any) -> Any:
        value, letters = contracted(*args)
        sizes.append(value.numel())
        return value, letters

    monkeypatch.setattr(rt, "_contracted", recorded)
    found = rt.einsum(equation, *operands)
    torch.testing.assert_close(found, torch.einsum(equation, *operands))
    assert len(sizes) == len(shapes) - 1
    assert max(sizes) <= max(found.numel(), *(t.numel() for t in operands))  # no outer product


@pytest.mark.parametrize("equation", ["td,sd->ts", "i,ij,jk->k"])
def test_einsum_is_traced_whole(equation: str) -> None:
    operands = [torch.randn([3] * len(term)) for term in equation.split("->")[0].split(",")]
    traced = torch.compile(rt.einsum, backend="eager", fullgraph=True)
    torch.testing.assert_close(traced(equation, *operands), torch.einsum(equation, *operands))


@pytest.mark.parametrize("name", ["expm1", "sigmoid", "tanh"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_functions_that_a_spec_does_not_have_keep_the_digits_of_their_derivatives(
    name: str, dtype: torch.dtype
) -> None:
    points = [-80.0, -40.0, -18.0, -3.0, -1.0, -0.3, 0.0, 0.3, 1.0, 3.0, 18.0, 40.0, 80.0]
    meaning = {"expm1": mp.expm1, "sigmoid": lambda x: 1 / (1 + mp.exp(-x)), "tanh": mp.tanh}[name]
    x = torch.tensor(points, dtype=dtype, requires_grad=True)
    value = getattr(rt, name)(x)
    eps = torch.finfo(dtype).eps
    with mp.workdps(80):
        for order in range(4):
            for point, own in zip(points, value.tolist(), strict=True):
                true = mp.diff(meaning, mp.mpf(point), order) if order else meaning(mp.mpf(point))
                assert abs(own - true) <= 40 * eps * abs(true) + (eps if order > 1 and abs(point) < 2 else 1e-45)
            (value,) = torch.autograd.grad(value.sum(), x, create_graph=True)
    with torch.no_grad():
        assert torch.equal(getattr(rt, name)(x), getattr(torch, name)(x))


def test_second_derivatives_through_functions_that_a_spec_does_not_have() -> None:
    """Of w * (1 - exp(-x)) by both: backward holds expm1, of which torch's own derivative is 0 where it is -1."""
    for formula in ("w * (1 - exp(-x))", "w / (1 + exp(-x))", "w * (exp(x) - exp(-x)) / (exp(x) + exp(-x))"):
        item = compiled_text(f"op: f\ntensors: {{w: , x: }}\noutputs: {{y: {formula}}}\n")
        w, x = (torch.tensor(v, requires_grad=True) for v in (1.5, 20.0))
        (first,) = torch.autograd.grad(item.function(w, x), w, create_graph=True)
        (second,) = torch.autograd.grad(first, x)
        (other,) = torch.autograd.grad(item.function(w, x), x)
        torch.testing.assert_close(second, other / w, rtol=1e-5, atol=0)
