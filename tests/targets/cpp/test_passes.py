"""Fused passes at work: they agree with the eager bodies, and leave to these what they cannot serve."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from fused import agree, all_written, compiled, needs_compiler, passes_of, written
from fused_specs import (
    ADDED,
    CHANNEL,
    CODED,
    CONFIDENT,
    COUPLING,
    CRITIC,
    DISTANCE,
    ENTROPY,
    FLAGGED,
    GAMMA,
    GATE,
    HEADS,
    KEPT,
    LAST,
    LAYER,
    LENGTHS,
    LOSS,
    MASKED,
    MEAN,
    NORM,
    OPTIONAL,
    OVERLAP,
    PARTS,
    RADIAL,
    RAY,
    ROTATED,
    ROWS,
    SCALE,
    SCALED,
    SCALED_ROWS,
    SCORED,
    SETTINGS,
    SHIFTED,
    SIGNED,
    SOFT,
    SPREAD,
    SQUARE,
    STEP,
    STRAIGHT,
    TEMPERED,
    TWO,
    UNCERTAIN,
    UNITED,
    WAVES,
    WEIGHTED,
)
from nightly import sampled
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import symgrad
from symgrad.ops.functions import FUNCTIONS
from symgrad.targets.cpp.spellings import SPELLINGS

pytestmark = needs_compiler

TEXTS = (
    *(GATE, CHANNEL, LOSS, NORM, LAYER, ROWS, GAMMA, TWO, SHIFTED, MEAN, KEPT, LAST, SCORED, SCALE, HEADS, MASKED),
    *(SOFT, ENTROPY, PARTS, DISTANCE, LENGTHS, OPTIONAL, CONFIDENT, WAVES, SPREAD, OVERLAP, STEP, ROTATED, CODED),
    *(ADDED, CRITIC, WEIGHTED, SETTINGS, UNITED, RAY, TEMPERED, FLAGGED, SQUARE, UNCERTAIN),
    *(COUPLING, RADIAL, STRAIGHT),
)


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SYMGRAD_KERNELS", raising=False)
        yield all_written(TEXTS, tmp_path_factory.mktemp("fused"))


def both(module, tensors, settings=(), wanted=None):
    """Outputs and gradients with fused passes, and without."""
    found = []
    op = getattr(module, module._kernels.source.stem)
    for on in (True, False):
        module._kernels.on = on
        leaves = [t.detach().requires_grad_(wanted is None or k in wanted) for k, t in enumerate(tensors)]
        outputs = op(*leaves, *settings)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        generator = torch.Generator().manual_seed(1)
        cotangents = [torch.randn(y.shape, generator=generator).to(y.dtype) for y in outputs]
        gradients = torch.autograd.grad(outputs, [t for t in leaves if t.requires_grad], cotangents)
        found.append([*outputs, *gradients])
    module._kernels.on = True
    return found


CASES = [
    ("gate", [(5,), (5,)]),
    ("gate", [(40, 33), ()]),
    ("gate", [(40, 33), (33,)]),
    ("gate", [(40, 33), (40, 1)]),
    ("gate", [(3,), (4, 1)]),
    ("gate", [(70000,), ()]),
    ("gate", [(3, 25000), (25000,)]),
    ("gate", [(7, 1037), (7, 1)]),
    ("gate", [(1,), ()]),
    ("gate", [(), ()]),
    ("channel", [(2, 3, 5), (3,)]),
    ("channel", [(4, 8, 3000), (8,)]),
    ("norm", [(4, 33), (33,)]),
    ("norm", [(2, 3, 16), (16,)]),
    ("norm", [(7,), (7,)]),
    ("norm", [(11, 1037), (1037,)]),
    ("layer", [(11, 1037), (1037,), (1037,)]),
    ("layer", [(2, 1, 3, 16), (16,), (16,)]),
    ("rows", [(4, 40)]),
    ("rows", [(3, 2, 5)]),
    ("rows", [(3, 1037)]),
    ("two", [(4, 5), (5,)]),
    ("shifted", [(6, 9), (6, 1)]),
    ("shifted", [(6, 1037), (6, 1)]),
    ("mean_of", [(3, 4, 5)]),
    ("mean_of", [(5, 700, 30)]),
    ("mean_of", [(2, 1, 40)]),
    ("kept", [(7, 33), (33,)]),
    ("kept", [(2, 90000), (90000,)]),
    ("last", [(3, 2, 40)]),
    ("last", [(5, 7)]),
    ("heads", [(2, 3, 40), (3, 1), (1, 1, 40)]),
    ("heads", [(3, 1, 1), (1, 1), (1, 1, 1)]),
    ("soft", [(4, 40), (40,)]),
    ("soft", [(3, 1037), ()]),
    ("soft", [(3, 1037), (3, 1)]),
    ("distance", [(5, 7), (5, 7)]),
    ("distance", [(70, 1037), (70, 1037)]),
    ("overlap", [(5,), (5,)]),
    ("overlap", [(3, 1), (3, 1)]),
    ("overlap", [(2, 3, 40, 5), (2, 3, 40, 5)]),
    ("overlap", [(90000,), (90000,)]),
    ("overlap", [(8192,), (8192,)]),
    ("overlap", [(128, 1), (128, 1)]),
    ("overlap", [(4, 8, 16, 32), (4, 8, 16, 32)]),
    ("step", [(7, 33), (7, 33), (7, 33)]),
    ("step", [(90000,), (90000,), (90000,)]),
    ("rotated", [(5, 40), (5, 40), (5, 40), (5, 40), (40,)]),
    ("rotated", [(1, 1037), (1, 1037), (1, 1037), (1, 1037), (1037,)]),
    ("added", [(7, 33), (7, 33), ()]),
    ("added", [(2, 3, 1037), (2, 3, 1037), ()]),
    ("added", [(4, 1), (4, 1), ()]),
    ("critic", [(40,), (40, 33)]),
    ("critic", [(300,), (300, 300)]),
    ("critic", [(5,), (5, 1)]),
    ("ray", [(40, 3), (40, 3), (3,), ()]),
    ("ray", [(70, 1037), (70, 1037), (1037,), ()]),
    ("tempered", [(40, 33), (40,), ()]),
    ("tempered", [(300, 300), (300,), ()]),
    ("uncertain", [(40, 33), (40, 33), ()]),
    ("uncertain", [(300, 300), (300, 300), ()]),
    ("weighted", [(40, 33), (40,)]),
    ("weighted", [(300, 300), (300,)]),
    ("coupling", [(7, 33), (7, 33), (7, 33)]),
    ("coupling", [(2, 3, 1037), (2, 3, 1037), (2, 3, 1037)]),
    ("coupling", [(40,), (40,), (40,)]),
    ("radial", [(7, 33), (7,)]),
    ("radial", [(300, 1037), (300,)]),
    ("straight", [(7, 33), (33,)]),
    ("straight", [(70000,), ()]),
    ("coded", [(7, 33), (7, 33), (7, 33)]),
    ("coded", [(70, 1037), (70, 1037), (70, 1037)]),
]


@pytest.mark.parametrize(
    ("op", "shapes", "dtype"),
    [*((*case, torch.float32) for case in CASES), *sampled(((*case, torch.float64) for case in CASES), 7)],
    ids=str,
)
def test_passes_of_any_shape_agree_with_the_eager_bodies(modules, op, shapes, dtype):
    generator = torch.Generator().manual_seed(0)
    tensors = [(0.5 + torch.rand(s, generator=generator)).to(dtype) for s in shapes]
    modules[op]._kernels.forget()
    agree(*both(modules[op], tensors))
    assert sum(map(bool, modules[op]._kernels.walks.values())) == 2  # forward and backward


@pytest.mark.parametrize(("op", "shapes"), [c for c in CASES if c[0] in ("gate", "layer", "soft")], ids=str)
def test_passes_over_few_elements_keep_to_vectors_of_256_bits(modules, monkeypatch, op, shapes):
    """What follows a pass with vectors of 512 bits takes a microsecond longer, as long as such a pass."""
    module = modules[op]
    monkeypatch.setattr(module._kernels, "narrow", 2048)
    monkeypatch.setattr(module._kernels, "libraries", {})
    module._kernels.forget()
    generator = torch.Generator().manual_seed(0)
    agree(*both(module, [0.5 + torch.rand(s, generator=generator) for s in shapes]))
    elements = torch.broadcast_shapes(*shapes).numel()
    assert {narrow for _, _, narrow in module._kernels.libraries} == {
        elements <= 2048 and module._kernels.has_wide_vectors()
    }
    module._kernels.forget()


def test_a_default_device_is_not_that_of_the_results(modules):
    x, beta = torch.randn(5), torch.tensor(0.5)
    with torch.device("meta"):
        y = modules["gate"].gate(x, beta)
    torch.testing.assert_close(y, x * torch.sigmoid(beta * x))


def test_layouts_in_turn_are_told_apart(modules):
    """Each of the last ones is recognised; of many, or where torch cannot compare them, all are looked up."""
    module, beta = modules["gate"], torch.tensor(0.5)
    x = torch.randn(6, 4, 8)
    views = [x, x.transpose(0, 1), x[::2], x.double(), x[0], torch.nn.Parameter(x), x.mT, x[:, 1:], x.bfloat16(), -x]
    for _ in range(3):
        for view in [*views, *reversed(views)]:
            expected = (view.double() * torch.sigmoid(beta * view.double())).to(view.dtype)
            torch.testing.assert_close(module.gate(view, beta.to(view.dtype)), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shapes", [((40, 33), ()), ((70000,), ()), ((4, 5), (5,))], ids=str)
def test_half_precision_is_computed_in_float32_and_rounded_once(modules, shapes, dtype):
    fused, eager = both(modules["gate"], [torch.randn(s).to(dtype) for s in shapes])
    agree(fused, eager)
    assert (fused[0] == eager[0]).double().mean() > 0.99  # computed in float32, rounded once


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_floats_of_places_widen_half_precision_whatever_the_size(dtype):
    text = "op: f\ntensors: {x: {shape: [B, N]}}\noutputs: {y: 'x * (arange(N) + 0.5) / N'}\n"
    f = symgrad.load(text).f
    for rows in (4, 4096):
        assert f(torch.ones(rows, 64, dtype=dtype)).dtype == torch.promote_types(dtype, torch.float32)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_reductions_of_rows_are_kept_in_the_type_of_the_arithmetic(modules, dtype):
    """In half precision the mean would be lost, of numbers far from 0."""
    x = (100 + torch.randn(40, 33)).to(dtype)
    weight, bias = torch.randn(2, 33).to(dtype)
    fused, eager = both(modules["layer"], [x, weight, bias])
    agree(fused, eager)
    y = modules["layer"].layer(x.requires_grad_(), weight, bias)
    assert [t.dtype for t in y.grad_fn.saved_tensors[-2:]] == [torch.float32] * 2
    assert not any(map(torch.is_tensor, pytree.tree_leaves(vars(y.grad_fn)))), "tensors are saved, not put on ctx"


@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="no large pages")
def test_large_results_lie_in_large_pages(modules):
    y = modules["scale"].scale(torch.ones(1 << 22), torch.ones(()))
    place, flags = y.data_ptr() + (1 << 22), ""
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            first, last = (int(n, 16) for n in line.split()[0].split("-"))
        elif line.startswith("VmFlags:") and first <= place < last:
            flags = line
    assert " hg" in flags


@pytest.mark.parametrize("shape", [(1700, 2000), (1699, 2001), (6, 600_001)], ids=str)
@pytest.mark.parametrize("op", ["gate", "norm"])
def test_results_that_go_past_the_caches(modules, op, shape):
    x, second = torch.randn(shape), torch.randn(shape if op == "gate" else shape[-1:])
    for _ in range(2):  # the second time memory is not new
        agree(*both(modules[op], [x, second]))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shapes", [((), ()), ((6,), (6,)), ((50, 700), (700,)), ((90, 1000), (90, 1000))], ids=str)
def test_reductions_over_everything(modules, reduction, shapes):
    tensors = [torch.randn(s) * 2 for s in shapes]
    agree(*both(modules["loss"], tensors, (0.75, reduction)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", [(3, 7), (1100, 33), (11, 1037)], ids=str)
def test_reductions_over_all_rows(modules, reduction, shape, dtype):
    modules["entropy"]._kernels.forget()
    agree(*both(modules["entropy"], [torch.randn(shape).to(dtype), torch.rand(shape).to(dtype)], (reduction,)))
    assert sum(map(bool, modules["entropy"]._kernels.walks.values())) == 2


@pytest.mark.parametrize("shapes", [((4, 4), (4,)), ((3, 1), (3,)), ((5, 40), (5,))], ids=str)
def test_a_tensor_with_one_element_for_each_row(modules, shapes):
    """Of squares, too: where the sizes differ, a wrong shape shows by itself."""
    agree(*both(modules["scored"], [0.5 + torch.rand(s, dtype=torch.float64) for s in shapes]))


def test_rows_beside_outputs_of_tensors_of_several_shapes_are_left_to_eager_operations(modules):
    """The sum is over the shape of `s` alone, and the other output has that of all."""
    tensors = [0.5 + torch.rand(s) for s in [(7, 33), (1, 33), (7, 33)]]
    modules["coupling"]._kernels.forget()
    agree(*both(modules["coupling"], tensors))
    assert not any(modules["coupling"]._kernels.walks.values())


@pytest.mark.parametrize("shapes", [((3, 5), (3,)), ((3, 5), (3, 7)), ((2, 3, 5), (3, 4))], ids=str)
def test_rows_of_several_lengths_are_left_to_eager_operations(modules, shapes):
    """What they are reduced to broadcasts, though they do not."""
    modules["lengths"]._kernels.forget()
    agree(*both(modules["lengths"], [torch.rand(s, dtype=torch.float64) for s in shapes]))
    assert not any(modules["lengths"]._kernels.walks.values())


@pytest.mark.parametrize("text", [SCALED, SCALED_ROWS, SIGNED], ids=["smaller", "smaller rows", "truth values"])
def test_what_no_pass_writes(text):
    assert not compiled(text).passes


@pytest.mark.parametrize("wanted", [(0,), (1,)])
def test_subsets_of_gradients(modules, wanted):
    agree(*both(modules["gate"], [torch.randn(4, 5), torch.randn(5)], wanted=wanted))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("given", [(0,), (2,), (0, 1, 2)], ids=str)
def test_tangents_of_what_follows_from_sums_and_from_a_number(modules, given, dtype):
    module, tensors = modules["uncertain"], [(0.5 + torch.rand(s)).to(dtype) for s in ((40, 33), (40, 33), ())]
    found = []
    for on in (True, False):
        with passes_of(module, on) as served, forward_ad.dual_level():
            duals = [forward_ad.make_dual(t, t / 2) if k in given else t for k, t in enumerate(tensors)]
            found.append([forward_ad.unpack_dual(y).tangent for y in module.uncertain(*duals)])
        assert len(served) == 2 * on  # forward, and forward mode
    agree(*found)


def test_what_is_read_after_a_pass_is_widened_as_its_sums_are(modules):
    passes = modules["uncertain"]._passes.passes[0].forward
    half = [torch.zeros(2, 3, dtype=torch.bfloat16), torch.zeros(2, 3), torch.ones((), dtype=torch.bfloat16)]
    read = []
    own = passes._replace(finish=lambda dtype, s, *others: read.append(s.dtype) or ())
    modules["uncertain"].rtk._finished(own, torch.bfloat16, half, [], [])
    assert passes.late == (2,) and read == [torch.float32]


LAYOUTS = {
    "channels last": lambda t: t.to(memory_format=torch.channels_last),
    "transposed": lambda t: t.transpose(0, 3),
    "every other": lambda t: t[..., ::2],
    "expanded": lambda t: t[:1].expand(4, -1, -1, -1),
    "offset": lambda t: t.flatten()[1:].unflatten(0, (-1, 1)),
    "flipped sign": lambda t: torch.complex(t, t).conj().imag,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_strides_give_the_values_and_strides_of_the_eager_bodies(modules, layout):
    x = LAYOUTS[layout](torch.randn(4, 3, 6, 5))
    fused, eager = both(modules["gate"], [x, torch.tensor(0.5)])
    agree(fused, eager)
    assert fused[0].stride() == eager[0].stride()
    agree(*both(modules["layer"], [x, *torch.rand(2, x.shape[-1])]))


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0), (0, 3, 2, 1)], ids=str)
@pytest.mark.parametrize("size", [(4, 3, 6, 5), (3, 1, 1), ()], ids=str)
def test_strides_of_truth_values(modules, size, order):
    """They are copied as numbers, and the copy need not lie as the pass goes."""
    places = [order.index(d) for d in range(4)]
    keep = (torch.randn([(4, 3, 6, 5)[d] for d in order]) > 0).permute(places)
    agree(*both(modules["masked"], [torch.rand(size), keep], wanted=(0,)))


@pytest.mark.parametrize("size", [(3, 6, 5), (3, 1, 5), (6, 1), (4, 1, 6, 5)], ids=str)
@pytest.mark.parametrize("layout", ["channels last", "transposed"])
def test_a_gradient_that_is_summed_where_its_last_dimension_is_not_the_innermost(modules, layout, size):
    x = torch.randn(4, 3, 6, 5)
    x = LAYOUTS[layout](x) if layout == "channels last" else x.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0)
    fused, eager = both(modules["gate"], [x, torch.rand(size)])
    agree(fused, eager)
    agree(*both(modules["gate"], [torch.rand(size), x]))


@pytest.mark.parametrize("op", ["mean_of", "last"])
def test_sums_where_the_last_dimension_is_not_the_innermost(modules, op):
    agree(*both(modules[op], [torch.randn(5, 4, 3).transpose(0, 2)]))


def test_the_threads_change_nothing(modules):
    x, beta = torch.randn(300_000), torch.tensor(0.5)
    threads = torch.get_num_threads()
    found = []
    for number in (1, 2, 3):
        torch.set_num_threads(number)
        found.append(both(modules["gate"], [x, beta])[0])
    torch.set_num_threads(threads)
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


def test_infinities_nan_and_signed_zeros_are_those_of_the_eager_bodies(modules):
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([nan, inf, -0.0, 0.0, 100.0, -100.0, 1e-40, -3e38])
    fused, eager = both(modules["gate"], [x, torch.ones(8)])
    assert torch.equal(fused[0].isnan(), eager[0].isnan())
    assert torch.equal(fused[0].signbit(), eager[0].signbit())
    rows = torch.tensor([[-inf, -inf], [inf, 1.0], [nan, 1.0]])
    for op, others, *settings in (("rows", []), ("soft", [torch.ones(2)]), ("entropy", [torch.ones(3, 2)], "none")):
        fused, eager = both(modules[op], [rows, *others], settings)
        torch.testing.assert_close(fused[0], eager[0], equal_nan=True)


def test_a_reduction_of_what_is_broadcast_along_the_row_is_left_to_eager_operations(modules):
    """Of a tensor with one element there, a pass would take as many as a row has."""
    for shapes, served in (([(4, 40), (40,)], 1), ([(4, 1), (4, 40)], 0), ([(), (40,)], 0)):
        modules["parts"]._kernels.forget()
        agree(*both(modules["parts"], [torch.rand(s) for s in shapes], wanted=(0,)))
        assert sum(map(bool, modules["parts"]._kernels.walks.values())) == served
    agree(*both(modules["soft"], [torch.rand(4, 1), torch.rand(4, 5)]))


def test_second_derivatives_come_from_the_eager_bodies(modules):
    x, beta = torch.randn(5, dtype=torch.float64), torch.tensor(0.5, dtype=torch.float64)
    leaves = (x.requires_grad_(), beta.requires_grad_())
    assert torch.autograd.gradcheck(modules["gate"].gate, leaves, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(modules["gate"].gate, leaves)


class Counting(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        return func(*args, **(kwargs or {}))


def declined(module, act):
    """Whether a call is left to the eager bodies: no pass is planned for it."""
    module._kernels.forget()
    act()
    return not any(module._kernels.walks.values())


def test_rows_and_columns_of_a_square_matrix_are_told_apart(modules):
    agree(*both(modules["square"], [torch.rand(9, 9, dtype=torch.float64), torch.rand(9, dtype=torch.float64)]))


@pytest.mark.parametrize("flag", [True, False])
def test_what_is_left_of_a_tensor_that_cancels_is_as_large_as_it(modules, flag):
    x = torch.rand(3, 4) + 0.5
    module = modules["flagged"]
    assert module.flagged(x, flag).shape == (3, 4)
    agree(*both(module, [x], (flag,)))


@pytest.mark.parametrize(("a", "n"), [(1.3, 3), (-0.6, 4), (0.0, 1)])
def test_functions_of_hyperparameters(modules, a, n):
    agree(*both(modules["settings"], [torch.randn(40, dtype=torch.float64)], (a, n)))


def test_what_one_output_gives_cancels_by_itself_beside_what_another_gives(modules):
    """The gradient of b is 0 by the first output, and tiny by the second."""
    fused, eager = both(modules["united"], [torch.full((9,), -1.555), torch.full((9,), 0.477)])
    torch.testing.assert_close(fused[-1], eager[-1], rtol=1e-5, atol=0)
    assert (fused[-1] != 0).all()


@pytest.mark.parametrize("shape", [(5,), (3, 1), ()], ids=str)
def test_outputs_of_which_some_would_be_smaller_are_left_to_eager_operations(modules, shape):
    """One reads all tensors, another two of them."""
    module = modules["step"]
    tensors = [torch.randn(shape if k else (3, 5), requires_grad=True) for k in range(3)]
    assert declined(module, lambda: torch.autograd.backward([y.sum() for y in module.step(*tensors)]))
    assert [y.shape for y in module.step(*tensors)] == [(3, 5), shape]


@pytest.mark.parametrize("given", [True, False], ids=["given", "absent"])
def test_an_optional_tensor(modules, given):
    """Each variant has passes of its own, also where its derivatives are those of another one."""
    module = modules["optional"]
    x, w, b = (torch.randn(s, dtype=torch.double, requires_grad=True) for s in ((3, 4), (4,), (4,)))
    tensors = (x, w, b) if given else (x, w)
    assert torch.autograd.gradcheck(module.optional, tensors)
    assert torch.autograd.gradgradcheck(module.optional, tensors)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x.detach(), torch.ones(3, 4, dtype=torch.double))
        _, pushed = torch.autograd.forward_ad.unpack_dual(module.optional(dual, *(t.detach() for t in tensors[1:])))
    torch.testing.assert_close(pushed, (1 - x.tanh() ** 2) * w)


def test_nothing_is_kept_where_nothing_is_differentiated(modules):
    """The numbers of rows that forward keeps for backward are no outputs."""
    module, x = modules["confident"], torch.randn(3, 5)
    outputs = module.confident(x)
    assert len(outputs) == 2
    agree(list(outputs), list(module.confident(x.requires_grad_())))


def test_angles_in_a_reduction_of_a_row(modules):
    """They are not measured by themselves: the whole pass is in float64."""
    x, w = torch.randn(3, 5), torch.tensor(3e4)
    agree(*both(modules["waves"], (x, w)))
    torch.testing.assert_close(modules["waves"].waves(x, w), (x.double() * w.double()).sin().sum(-1).float())


@pytest.mark.filterwarnings("ignore:var")
@pytest.mark.parametrize("size", [1, 2, 3, 9])
@pytest.mark.parametrize("correction", [0, 1, 2, 3])
def test_a_correction_beyond_the_degrees_of_freedom(modules, size, correction):
    """Nothing is divided by a negative number, as in torch."""
    fused, eager = both(modules["spread"], (torch.randn(4, size),), (correction,))
    torch.testing.assert_close(fused, eager, equal_nan=True)


def test_what_passes_decline(modules):
    gate = modules["gate"]
    x, beta = torch.randn(5), torch.tensor(0.5)
    assert not declined(gate, lambda: gate.gate(x, beta))
    assert declined(gate, lambda: torch.func.grad(lambda t: gate.gate(t, beta).sum())(x))
    assert declined(gate, lambda: torch.vmap(gate.gate, (0, None))(x, beta))
    assert declined(gate, lambda: gate.gate(x.to("meta"), beta.to("meta")))
    assert declined(gate, lambda: gate.gate(x, beta.double().reshape(1)))
    assert declined(gate, lambda: gate.gate(x.long(), beta))
    assert declined(gate, lambda: gate.gate(torch.randn(0, 3), beta))
    assert declined(gate, lambda: gate.gate(torch._efficientzerotensor(5), beta))
    assert declined(gate, lambda: gate.gate(torch.randn(5).as_subclass(type("Own", (torch.Tensor,), {})), beta))
    with Counting() as seen:
        assert declined(gate, lambda: gate.gate(x, beta))
    assert seen.calls


def test_a_number_is_a_row_for_eager_operations(modules):
    agree(*both(modules["rows"], [torch.tensor(0.7)]))


def test_a_method_without_a_pass(modules):
    told = " ".join(modules["gamma"].__doc__.split())
    rest = "second derivatives in eager operations (polygamma)."
    assert f"Fused: forward, backward and forward mode, from gamma.cpp; {rest}" in told
    agree(*both(modules["gamma"], [torch.rand(7) + 0.5]))


def test_broadcast_cotangents(modules):
    x = torch.randn(6, 5, requires_grad=True)
    modules["gate"].gate(x, torch.tensor(0.5)).sum().backward()
    fused = x.grad
    modules["gate"]._kernels.on = False
    x.grad = None
    modules["gate"].gate(x, torch.tensor(0.5)).sum().backward()
    modules["gate"]._kernels.on = True
    torch.testing.assert_close(fused, x.grad)


@pytest.mark.parametrize("shapes", [((4, 5), (5,)), ((4, 5), ()), ((4, 1), (4, 5)), ((1, 5), (5,))], ids=str)
def test_sums_over_everything_of_tensors_that_broadcast_are_left_to_eager_operations(modules, shapes):
    module = modules["overlap"]
    module._kernels.forget()
    tensors = [(0.5 + torch.rand(s)) * scale for s, scale in zip(shapes, (0.01, 1), strict=True)]
    agree(*both(module, tensors))
    assert not any(module._kernels.walks.values())


@pytest.mark.parametrize("shape", [(64, 64), (128, 1), (1, 128), (6, 5)], ids=str)
def test_rows_of_any_length_are_read_in_any_strides(modules, shape):
    """Nothing but sums over everything is given to these rows, so dimensions are cut and joined as they lie."""
    module = modules["overlap"]
    x, t = (torch.rand(shape) for _ in range(2))
    apart = torch.stack([x, x], -1)[..., 0]
    for first in (x, x.mT.contiguous().mT, apart, x[:, :1].expand(shape)):
        module._kernels.forget()
        agree(*both(module, [first, t]))
        assert sum(map(bool, module._kernels.walks.values())) == 2


def test_rows_of_any_length_are_cut_for_threads_to_share(modules):
    module = modules["overlap"]
    module._kernels.forget()
    both(module, [torch.rand(8192, 1), torch.rand(8192, 1)])
    sizes = {key[0]: run.walk.sizes for key, run in module._kernels.walks.items()}
    assert sizes == {"forward": [8192], "backward": [2, 4096]}


# Functions that C++ computes of numbers; polygamma has an order, which is no number of a call.
OF_NUMBERS = [
    n
    for n, own in SPELLINGS.items()
    if own.number and n in FUNCTIONS and not FUNCTIONS[n].internal and n != "polygamma"
]


@pytest.mark.parametrize("part", [0, 1])
def test_functions_of_hyperparameters_are_those_of_python(part, tmp_path):
    inside = {0: "a**2 + 0.2", 1: "a**2 + 1.2", -1: "a / 3"}  # of the lower bound of a domain

    def call(name):
        row = FUNCTIONS[name]
        last = inside.get(row.domain[0], "a")
        return f"{name}({', '.join(['b', 'a + 1', last][-row.required :])})"

    names = OF_NUMBERS[part::2]
    lines = "".join(f"  y_{name}: x * {call(name)}\n" for name in names)
    head = "op: of_numbers\ntensors: {x: }\nhyperparameters: {a: 0.3, b: 0.6}\noptions: {kernels: all}\noutputs:\n"
    module = written(head + lines, tmp_path)
    x = torch.rand(5, dtype=torch.float64) + 0.5
    for a, b in ((0.3, 0.6), (-0.7, 2.5), (1.25, -0.5)):
        for name, ours, theirs in zip(names, *both_forward(module, x, a, b), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=0, msg=lambda m, name=name: f"{name}: {m}")


def both_forward(module, *args):
    """The outputs by passes and by eager operations."""
    found = []
    for on in (True, False):
        module._kernels.on = on
        found.append(getattr(module, module._kernels.source.stem)(*args))
    module._kernels.on = True
    return found


def test_nothing_is_left_of_equal_products(tmp_path):
    module = written("op: cross\ntensors: {a: , b: , c: , d: }\noutputs: {y: 1000 * (a * b - c * d)}\n", tmp_path)
    for dtype in (torch.float32, torch.float64):
        a, b = torch.randn(2, 1000, dtype=dtype)
        assert not module.cross(a, b, a.clone(), b.clone()).any() and not module.cross(a, b, -a, -b).any()
    assert module._kernels.libraries


EXPONENTS = {
    "-s*(x[:, None] - c)**2": (3e5, lambda x, c, s: -s * (x[:, None] - c) ** 2),
    "-(x[:, None] - c)**2/(2*s**2)": (1e-3, lambda x, c, s: -((x[:, None] - c) ** 2) / (2 * s**2)),
    "s - x[:, None]*c*s - square(c)": (3e5, lambda x, c, s: s - x[:, None] * c * s - c.square()),
}


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_shares_of_large_exponents_sum_to_one(tmp_path, exponent):
    """Backward computes exponents as forward did: of 1e5 an error of rounding is as much as a factor of 1.01."""
    shapes = "x: {shape: [B], grad: false}, c: {shape: [B, K]}, s: {shape: [], grad: false}"
    module = written(f'op: shares\ntensors: {{{shapes}}}\noutputs: {{y: "logsumexp({exponent}, dim=-1)"}}\n', tmp_path)
    size, formula = EXPONENTS[exponent]
    torch.manual_seed(0)
    x, c, s = torch.randn(5000), torch.randn(5000, 5), torch.tensor(size)
    found = []
    for on, dtype in ((True, torch.float32), (False, torch.float32), (None, torch.float32), (None, torch.float64)):
        leaf = c.to(dtype).requires_grad_()
        given = x.to(dtype), leaf, s.to(dtype)
        with passes_of(module, bool(on)):
            y = module.shares(*given) if on is not None else formula(*given).logsumexp(-1)
            found.append(torch.autograd.grad(y.sum(), leaf)[0].double())
    fused, eager, composite, right = found
    least = 1e-4 * right.abs().max()
    errors = [((own - right).abs() / (right.abs() + least)).max().item() for own in (fused, eager, composite)]
    assert max(errors[:2]) < 2 * errors[2] + 1e-4, errors
