"""Triton passes at work, through the interpreter: they agree with the eager bodies.

What holds of passes on a CPU is not repeated here: modules choose between passes and eager bodies alike.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from devices import on_cuda
from fused import agree, all_written, imported
from fused_specs import (
    BELL,
    CHANNEL,
    DISTANCE,
    ENTROPY,
    GATE,
    HEADS,
    KEPT,
    LAST,
    LAYER,
    LOSS,
    MEAN,
    NORM,
    OVERLAP,
    ROWS,
    SCORED,
    SHIFTED,
    SOFT,
    TWO,
)
from nightly import sampled

pytest.importorskip("triton")
import interpreted

MASKED = """
op: masked
tensors: {x: , keep: {dtype: bool}, scale: }
outputs: {y: 'where(keep, x * scale, -x)'}
"""
PEAK = "op: peak\ntensors: {x: }\noutputs: {y: 'x - amax(x, dim=-1, keepdim=True)', z: 'amin(x, dim=-1)'}\n"
SETTINGS = """
op: settings
tensors: {x: , beta: }
hyperparameters: {scale: 0.1, sharp: {type: bool, default: true}, power: {type: float, default: 1.7}}
let: {turned: tanh(x + log(10)) * sqrt(scale + log(10)) * (pi - x)}
outputs: {y: 'where(x > scale, 0.1, 1/3) * beta + maximum(x, 0.1)**power + where(sharp, tanh(x / scale), x) + turned'}
"""
CLASH = """
op: clash
tensors: {T: , sizes: , libdevice: , _PI: }
hyperparameters: {step: 2.0, tl: 0.5}
outputs: {forward_at: 'exp(T) * sizes**step + pi * libdevice / _PI', place: 'tl * T + sizes + libdevice + _PI'}
"""
TEXTS = (
    GATE,
    CHANNEL,
    LOSS,
    NORM,
    ROWS,
    TWO,
    MASKED,
    LAYER,
    PEAK,
    SHIFTED,
    SETTINGS,
    CLASH,
    SCORED,
    BELL,
    HEADS,
    SOFT,
    ENTROPY,
    DISTANCE,
    MEAN,
    KEPT,
    LAST,
    OVERLAP,
)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return {op: Path(m.__file__) for op, m in all_written(TEXTS, tmp_path_factory.mktemp("cuda")).items()}


@pytest.fixture(scope="module")
def both(paths, interpret):
    return lambda op, *args, **options: interpret(interpreted.both, paths[op], *args, **options)


SMALL = {"TILE": 32, "WIDEST": 64, "PROGRAMS": 4, "LONGEST": 8, "NEAR": 50}
CASES = [
    ("gate", [(5,), (5,)]),
    ("gate", [(40, 33), ()]),
    ("gate", [(40, 33), (33,)]),
    ("gate", [(40, 33), (40, 1)]),
    ("gate", [(3,), (4, 1)]),
    ("gate", [(3, 2, 3, 5), (2, 1, 5)]),
    ("gate", [(3, 2, 3, 5), (3, 1, 3, 1)]),
    ("gate", [(2, 1, 2, 1, 3, 4), (3, 1, 2, 1, 4)]),
    ("gate", [(1,), ()]),
    ("gate", [(), ()]),
    ("channel", [(2, 3, 5), (3,)]),
    ("channel", [(3, 4, 40), (4,)]),
    ("norm", [(4, 33), (33,)]),
    ("norm", [(2, 3, 16), (16,)]),
    ("norm", [(7,), (7,)]),
    ("norm", [(5, 130), (130,)]),
    ("layer", [(20, 20), (20,), (20,)]),
    ("layer", [(3, 150), (150,), (150,)]),
    ("layer", [(2, 3, 20), (20,), (20,)]),
    ("soft", [(5, 130), (130,)]),
    ("soft", [(2, 3, 20), ()]),
    ("distance", [(2, 20), (2, 20)]),
    ("distance", [(5, 130), (5, 130)]),
    ("rows", [(4, 40)]),
    ("rows", [(3, 2, 5)]),
    ("peak", [(6, 9)]),
    ("peak", [(2, 100)]),
    ("shifted", [(6, 9), (6, 1)]),
    ("shifted", [(3, 100), (3, 1)]),
    ("two", [(4, 5), (5,)]),
    ("settings", [(4, 5), (5,)]),
    ("clash", [(4, 5), (5,), (), (4, 1)]),
    ("gelu_tanh", [(4, 50)]),
    ("heads", [(2, 3, 40), (3, 1), (1, 1, 40)]),
    ("heads", [(2, 3, 100), (3, 1), (1, 1, 100)]),
    ("mean_of", [(2, 70, 33)]),
    ("kept", [(100, 40), (40,)]),
    ("last", [(3, 40, 50)]),
    ("mean_of", [(2, 70, 1)]),
    ("mean_of", [(1, 7, 100)]),
    ("last", [(2, 1, 100)]),
    ("overlap", [(3, 100), (3, 100)]),
]


@pytest.mark.parametrize(
    ("dtype", "sizes"), [(torch.float32, None), (torch.float64, SMALL)], ids=["usual tiles", "small tiles"]
)
@pytest.mark.parametrize(("op", "shapes"), sampled(CASES, 3), ids=str)
def test_passes_of_any_shape_agree_with_the_eager_bodies(both, op, shapes, dtype, sizes):
    generator = torch.Generator().manual_seed(0)
    tensors = [(0.5 + torch.rand(s, generator=generator)).to(dtype) for s in shapes]
    fused, eager, served = both(op, tensors, sizes=sizes)
    agree(fused, eager)
    assert [t.stride() for t in fused] == [t.stride() for t in eager]
    assert served == 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    ("op", "shapes"),
    [("gate", [(40, 33), ()]), ("gate", [(4, 5), (5,)]), ("layer", [(4, 33), (33,), (33,)]), ("gelu_tanh", [(40,)])],
    ids=str,
)
def test_half_precision_agrees_with_the_eager_bodies(both, op, shapes, dtype):
    fused, eager, served = both(op, [torch.randn(s).to(dtype) for s in shapes])
    agree(fused, eager)
    assert served == 2


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shapes", [((6,), (6,)), ((20, 30), (30,)), ((5, 50), (5, 50))], ids=str)
def test_reductions_over_everything(both, reduction, shapes):
    fused, eager, served = both("loss", [torch.randn(s) * 2 for s in shapes], (0.75, reduction), sizes=SMALL)
    agree(fused, eager)
    assert served == 2


@pytest.mark.parametrize("sizes", [None, SMALL], ids=["usual tiles", "small tiles"])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", [(3, 7), (40, 130), (1, 1)], ids=str)
def test_reductions_over_all_rows(both, reduction, shape, sizes):
    fused, eager, served = both("entropy", [torch.randn(shape), torch.rand(shape)], (reduction,), sizes=sizes)
    agree(fused, eager)
    assert served == 2


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 2)])
def test_subsets_of_gradients(both, wanted):
    shapes = [(4, 5), (5,), (5,)]
    agree(*both("layer", [torch.randn(s) for s in shapes], wanted=wanted)[:2])


@pytest.mark.parametrize("shapes", [((4, 9), (4,)), ((5, 100), (5,))], ids=str)
@pytest.mark.parametrize("sizes", [None, SMALL], ids=["usual tiles", "small tiles"])
def test_a_tensor_with_one_element_for_each_row(both, shapes, sizes):
    fused, eager, served = both("scored", [torch.rand(s) for s in shapes], sizes=sizes)
    agree(fused, eager)
    assert served == 2


def test_truth_values(both):
    x, keep = torch.randn(6, 7), torch.rand(7) > 0.5
    fused, eager, served = both("masked", [x, keep, torch.tensor(2.0)])
    agree(fused, eager)
    assert served == 2


LAYOUTS = {
    "channels last": lambda t: t.to(memory_format=torch.channels_last),
    "transposed": lambda t: t.transpose(0, 3),
    "every other": lambda t: t[..., ::2],
    "expanded": lambda t: t[:1].expand(4, -1, -1, -1),
    "offset": lambda t: t.flatten()[1:].unflatten(0, (-1, 1)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_strides_give_the_values_and_strides_of_the_eager_bodies(both, layout):
    x = LAYOUTS[layout](torch.randn(4, 3, 6, 5))
    fused, eager, _ = both("gate", [x, torch.tensor(0.5)])
    agree(fused, eager)
    assert fused[0].stride() == eager[0].stride()
    agree(*both("norm", [x, torch.rand(x.shape[-1])])[:2])


@pytest.mark.parametrize("size", [(3, 6, 5), (3, 1, 5), (6, 1)], ids=str)
def test_a_gradient_that_is_summed_where_its_last_dimension_is_not_the_innermost(both, size):
    x = LAYOUTS["channels last"](torch.randn(4, 3, 6, 5))
    agree(*both("gate", [x, torch.rand(size)])[:2])


def test_infinities_nan_and_signed_zeros_are_those_of_the_eager_bodies(both):
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([nan, inf, -0.0, 0.0, 100.0, -100.0, 1e-40, -3e38])
    fused, eager, _ = both("gate", [x, torch.ones(8)])
    assert torch.equal(fused[0].isnan(), eager[0].isnan())
    assert torch.equal(fused[0].signbit(), eager[0].signbit())
    rows = torch.tensor([[-inf, -inf], [inf, 1.0], [nan, 1.0], [1.0, nan]])
    for op in ("rows", "peak"):
        fused, eager, _ = both(op, [rows])
        torch.testing.assert_close(fused, eager, equal_nan=True)


@pytest.mark.parametrize("op", ["rows", "soft"])
def test_sums_of_exponentials_are_rescaled_from_tile_to_tile(both, op):
    inf, nan = float("inf"), float("nan")
    x = torch.randn(9, 200, dtype=torch.float64).cumsum(1) * torch.linspace(-30, 30, 9)[:, None]
    x[1, :64], x[2, 64:], x[3], x[4, 100], x[5, 150], x[6, 0], x[7, :150] = -inf, -inf, -inf, inf, nan, inf, -1e300
    w = [torch.ones(200, dtype=torch.float64)] if op == "soft" else []
    fused, eager, served = both(op, [x, *w], wanted=(0,), sizes=SMALL)
    torch.testing.assert_close(fused, eager, equal_nan=True, rtol=1e-12, atol=1e-12)
    assert served == 2


def test_settings_reach_the_pass_in_float64(both):
    x, beta = torch.randn(9, dtype=torch.float64), torch.tensor(0.3, dtype=torch.float64)
    for settings in ((0.1, True, 1.7), (0.2, False, 2.5)):
        fused, eager, served = both("settings", [x, beta], settings)
        for a, b in zip(fused, eager, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-14, atol=1e-14)
        assert served == 2


# ------------------------------------------------------------------------------------------------ derivatives
HIGHER = [
    ("gate", [(5,), (5,)], ()),
    ("gate", [(11, 33), (33,)], ()),
    ("gate", [(3, 2, 3, 5), (2, 1, 5)], ()),
    ("gate", [(), ()], ()),
    ("channel", [(2, 3, 40), (3,)], ()),
    ("loss", [(7, 30), (30,)], (0.3, "mean")),
    ("loss", [(6, 5), (6, 1)], (0.3, "none")),
    ("norm", [(5, 70), (70,)], ()),
    ("rows", [(4, 40)], ()),
    ("two", [(4, 5), (5,)], ()),
    ("settings", [(4, 5), (5,)], ()),
    ("gelu_tanh", [(4, 50)], ()),
    ("soft", [(4, 50), (50,)], ()),
    ("distance", [(4, 50), (4, 50)], ()),
    ("entropy", [(5, 70), (5, 70)], ("mean",)),
]


@pytest.mark.parametrize("sizes", [None, SMALL], ids=["usual tiles", "small tiles"])
@pytest.mark.parametrize(("op", "shapes", "settings"), sampled(HIGHER, 3), ids=str)
def test_forward_mode_and_second_derivatives(paths, interpret, op, shapes, settings, sizes):
    generator = torch.Generator().manual_seed(0)
    tensors = [0.5 + torch.rand(s, generator=generator, dtype=torch.float64) for s in shapes]
    fused, eager, served = interpret(interpreted.higher, paths[op], tensors, settings, sizes=sizes)
    agree(fused, eager)
    assert served["jvp"] and served["second"]


@pytest.mark.parametrize(("op", "shapes"), [("mean_of", [(3, 7, 5)]), ("kept", [(20, 7), (7,)])], ids=str)
def test_forward_mode_of_sums_over_other_dimensions(paths, interpret, op, shapes):
    tensors = [torch.rand(s, dtype=torch.float64) for s in shapes]
    fused, eager, served = interpret(interpreted.higher, paths[op], tensors, (), sizes=SMALL)
    agree(fused, eager)
    assert served["jvp"]


# ------------------------------------------------------------------------------------------------ choosing
def test_what_passes_decline(paths, interpret):
    assert interpret(interpreted.served, paths["gate"]) == ["plain"]


def serving_cpu_tensors(path):
    """A module whose passes for CUDA tensors are asked for CPU tensors."""
    module = imported(path)
    module._kernels = module._passes.library = module._kernels.elsewhere
    module._kernels.kind = "cpu"
    return module


def test_without_triton_eager_operations_serve_after_one_warning(paths, monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    module = serving_cpu_tensors(paths["gate"])
    x, beta = torch.randn(5), torch.tensor(0.5)
    with pytest.warns(
        RuntimeWarning, match="gate_triton: no fused kernels, eager operations serve instead: .*triton"
    ) as seen:
        y = module.gate(x, beta)
    assert len(seen) == 1
    torch.testing.assert_close(y, x * torch.sigmoid(beta * x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module.gate(x.double(), beta.double())  # and no more


def test_an_old_triton(paths, monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(__version__="3.5.1"))
    with pytest.warns(RuntimeWarning, match="Triton 3.6 or later is needed, and this is 3.5.1"):
        serving_cpu_tensors(paths["gate"]).gate(torch.randn(3), torch.tensor(1.0))


def test_a_source_that_was_changed(paths, tmp_path):
    for name in ("gate.py", "gate_triton.py", "_runtime.py", "_kernels.py"):
        text = paths["gate"].with_name(name).read_text()
        (tmp_path / name).write_text(text + "# more\n" * (name == "gate_triton.py"))
    with pytest.warns(RuntimeWarning, match="gate_triton.py is not the file that this module was generated with"):
        serving_cpu_tensors(tmp_path / "gate.py").gate(torch.randn(3), torch.tensor(1.0))


def test_a_pass_that_triton_refuses(paths):
    module = serving_cpu_tensors(paths["gate"])

    class Refused(Exception):
        pass

    class Plan:
        def __init__(self, *args):
            pass

        def __call__(self, *args):
            raise Refused("out of registers")

    module._kernels.refused = Refused
    module._kernels.libraries[torch.float32] = SimpleNamespace(Plan=Plan, PASSES={"forward": None})
    x, beta = torch.randn(5), torch.tensor(0.5)
    with pytest.warns(RuntimeWarning, match="out of registers"):
        torch.testing.assert_close(module.gate(x, beta), x * torch.sigmoid(beta * x))


def test_passes_are_turned_off_by_the_environment(paths, monkeypatch):
    monkeypatch.setenv("SYMGRAD_KERNELS", "0")
    module = serving_cpu_tensors(paths["gate"])
    module.gate(torch.randn(3), torch.tensor(1.0))
    assert not module._kernels.walks


@on_cuda
@pytest.mark.parametrize(("op", "shapes"), CASES, ids=str)
def test_results_on_a_device_agree_and_are_the_same_bits_again(paths, op, shapes):
    module = imported(paths[op])
    kernels = module._kernels.elsewhere
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        tensors = [(0.5 + torch.rand(s)).to("cuda", dtype) for s in shapes]
        found = []
        for on in (True, False, True):
            kernels.on = on
            found.append(interpreted.results(getattr(module, op), tensors))
        agree(*found[:2])
        assert all(map(torch.equal, found[0], found[2]))
        assert kernels.on and sum(map(bool, kernels.walks.values())) == 2
        kernels.forget()


@on_cuda
def test_kernels_that_are_launched_again_on_a_device_serve_what_is_not_aligned_as_well(paths):
    module = imported(paths["gate"])
    beta, full = torch.tensor(0.5, device="cuda"), torch.rand(4100, device="cuda")
    for x in (full[:4096], full[4:], full[1:4097], full[:4096], full[3:4099], full[4:]):
        torch.testing.assert_close(module.gate(x, beta), x * torch.sigmoid(beta * x))
    assert all(module._kernels.elsewhere.walks.values())


@on_cuda
@pytest.mark.parametrize(("op", "shapes", "settings"), HIGHER, ids=str)
def test_forward_mode_and_second_derivatives_on_a_device(paths, op, shapes, settings):
    module = imported(paths[op])
    kernels, function = module._kernels.elsewhere, getattr(module, op)
    tensors = [(0.5 + torch.rand(s, dtype=torch.float64)).cuda() for s in shapes]
    places = range(len(tensors))
    found = []
    for on in (True, False):
        kernels.on = on
        tangents = interpreted.tangents(function, tensors, settings, places)
        found.append([*tangents, *interpreted.second(function, tensors, settings, places)])
    agree(*found)
    assert kernels.walks and all(kernels.walks.values())
