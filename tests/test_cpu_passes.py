"""Fused passes at work: they agree with the eager bodies, and leave to these what they cannot serve."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from fused import all_written, compiled, imported, needs_compiler, written
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = needs_compiler

BELL = (Path(__file__).parents[1] / "specs" / "gelu_tanh.yaml").read_text(encoding="utf-8")
GATE = "op: gate\ntensors: {x: , beta: }\noutputs: {y: x * sigmoid(beta * x)}\n"
CHANNEL = """
op: channel
tensors:
  x: {shape: [N, C, T]}
  alpha: {shape: [C], domain: "(0, oo)"}
outputs: {y: x + sin(alpha * x)**2 / alpha}
"""
LOSS = """
op: loss
tensors: {input: , target: }
hyperparameters:
  delta: {type: float, default: 1.0, domain: "(0, oo)"}
  reduction: {type: str, default: mean, choices: [none, mean, sum]}
let: {each: "where(abs(input - target) <= delta, (input - target)**2 / 2, delta * (abs(input - target) - delta/2))"}
outputs: {loss: 'where(reduction == "mean", mean(each), where(reduction == "sum", sum(each), each))'}
"""
NORM = """
op: norm
tensors: {x: {shape: [..., D]}, weight: {shape: [D]}}
hyperparameters: {eps: {type: float, default: 1.0e-6, domain: "(0, oo)"}}
outputs: {y: 'x / sqrt(mean(x**2, dim=-1, keepdim=True) + eps) * weight'}
"""
LAYER = """
op: layer
tensors: {x: {shape: [..., D]}, weight: {shape: [D]}, bias: {shape: [D]}}
let: {c: "x - mean(x, dim=-1, keepdim=True)"}
outputs: {y: 'c / sqrt(mean(c**2, dim=-1, keepdim=True) + 1e-5) * weight + bias'}
"""
ROWS = "op: rows\ntensors: {x: }\noutputs: {y: 'logsumexp(x, dim=-1)'}\ntest: {shapes: {x: [3, 5]}}\n"
GAMMA = 'op: gamma\ntensors: {x: {domain: "(0, oo)"}}\noutputs: {y: digamma(x)}\n'
MEAN = "op: mean_of\ntensors: {x: {shape: [N, C, T]}}\noutputs: {y: 'mean(sin(x)**2, dim=1)'}\n"
KEPT = """
op: kept
tensors: {x: {shape: [N, C]}, t: {shape: [C]}}
outputs: {y: 'sum((x - t)**2, dim=0, keepdim=True)'}
"""
LAST = "op: last\ntensors: {x: }\noutputs: {y: 'mean(exp(x), dim=[-2, -1])'}\ntest: {shapes: {x: [2, 3, 4]}}\n"
SCALE = "op: scale\ntensors: {x: , z: }\noutputs: {y: x * z}\n"
TWO = "op: two\ntensors: {x: , z: }\noutputs: {a: x * exp(z), b: x + z}\n"
SHIFTED = """
op: shifted
tensors: {x: {shape: [N, D]}, t: {shape: [N, 1]}}
outputs: {y: '2 * x * sin(t) + t - mean(x, dim=-1, keepdim=True)'}
"""
HEADS = """
op: heads
tensors: {x: {shape: [B, H, D]}, s: {shape: [H, 1]}, w: {shape: [1, 1, D]}}
outputs: {y: 'x * s * w / (norm(x, dim=-1, keepdim=True) + 1)'}
"""
MASKED = "op: masked\ntensors: {x: , keep: {dtype: bool}}\noutputs: {y: 'where(keep, x**2, -x)'}\n"
CHOSEN = """
op: chosen
tensors: {x: , a: }
hyperparameters: {s: 1.5}
outputs: {y: '(s*a + s*x) / (1 + (where(a != x, 1/3, x) - x)**2)'}
"""
SCALED = "op: scaled\ntensors: {x: , t: }\noutputs: {y: 'sum(x, dim=-1, keepdim=True) * t'}\n"
SIGNED = "op: signed\ntensors: {x: }\noutputs: {y: sin(x), positive: {expr: x > 0, grad: false}}\n"
SCALED_ROWS = """
op: scaled_rows
tensors: {x: {shape: [N, D]}, t: {shape: [N, 1]}}
outputs: {y: 'logsumexp(x, dim=-1, keepdim=True) * t'}
"""
SCORED = """
op: scored
tensors: {x: {shape: [N, K]}, t: {shape: [N]}}
outputs: {y: 'logsumexp(x, dim=-1) - sin(t)'}
"""
TEXTS = (GATE, CHANNEL, LOSS, NORM, LAYER, ROWS, GAMMA, TWO, SHIFTED, MEAN, KEPT, LAST, SCORED, SCALE, HEADS, MASKED)


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SYMGRAD_KERNELS", raising=False)
        yield all_written(TEXTS, tmp_path_factory.mktemp("fused"))


def both(module, tensors, settings=(), wanted=None):
    """Outputs and gradients with fused passes, and without."""
    found = []
    op = getattr(module, module._kernels.source.stem.removesuffix("_cpu"))
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


def agree(fused, eager):
    for a, b in zip(fused, eager, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        tolerance = {torch.float64: 1e-11, torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}[a.dtype]
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


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
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("op", "shapes"), CASES, ids=str)
def test_shapes(modules, op, shapes, dtype):
    generator = torch.Generator().manual_seed(0)
    tensors = [(0.5 + torch.rand(s, generator=generator)).to(dtype) for s in shapes]
    modules[op]._kernels.walks.clear()
    agree(*both(modules[op], tensors))
    assert sum(map(bool, modules[op]._kernels.walks.values())) == 2  # forward and backward


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shapes", [((40, 33), ()), ((70000,), ()), ((4, 5), (5,))], ids=str)
def test_half_precision(modules, shapes, dtype):
    fused, eager = both(modules["gate"], [torch.randn(s).to(dtype) for s in shapes])
    agree(fused, eager)
    assert (fused[0] == eager[0]).double().mean() > 0.99  # computed in float32, rounded once


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


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shapes", [((), ()), ((6,), (6,)), ((50, 700), (700,)), ((90, 1000), (90, 1000))], ids=str)
def test_reductions_over_everything(modules, reduction, shapes):
    tensors = [torch.randn(s) * 2 for s in shapes]
    agree(*both(modules["loss"], tensors, (0.75, reduction)))


@pytest.mark.parametrize("shapes", [((4, 4), (4,)), ((3, 1), (3,)), ((5, 40), (5,))], ids=str)
def test_a_tensor_with_one_element_for_each_row(modules, shapes):
    """Of squares, too: where the sizes differ, a wrong shape shows by itself."""
    agree(*both(modules["scored"], [0.5 + torch.rand(s, dtype=torch.float64) for s in shapes]))


@pytest.mark.parametrize("text", [SCALED, SCALED_ROWS, SIGNED], ids=["smaller", "smaller rows", "truth values"])
def test_what_no_pass_writes(text):
    assert not compiled(text).passes


@pytest.mark.parametrize("wanted", [(0,), (1,)])
def test_subsets_of_gradients(modules, wanted):
    agree(*both(modules["gate"], [torch.randn(4, 5), torch.randn(5)], wanted=wanted))


LAYOUTS = {
    "channels last": lambda t: t.to(memory_format=torch.channels_last),
    "transposed": lambda t: t.transpose(0, 3),
    "every other": lambda t: t[..., ::2],
    "expanded": lambda t: t[:1].expand(4, -1, -1, -1),
    "offset": lambda t: t.flatten()[1:].unflatten(0, (-1, 1)),
    "flipped sign": lambda t: torch.complex(t, t).conj().imag,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides(modules, layout):
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


def test_special_values(modules):
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([nan, inf, -0.0, 0.0, 100.0, -100.0, 1e-40, -3e38])
    fused, eager = both(modules["gate"], [x, torch.ones(8)])
    assert torch.equal(fused[0].isnan(), eager[0].isnan())
    assert torch.equal(fused[0].signbit(), eager[0].signbit())
    rows = torch.tensor([[-inf, -inf], [inf, 1.0], [nan, 1.0]])
    fused, eager = both(modules["rows"], [rows])
    torch.testing.assert_close(fused[0], eager[0], equal_nan=True)


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
    module._kernels.walks.clear()
    act()
    return not any(module._kernels.walks.values())


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
    assert f"Fused: forward, backward and forward mode, from gamma_cpu.cpp; {rest}" in told
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


# ------------------------------------------------------------------------------------------------ building
def test_libraries_are_cached_by_content(modules, monkeypatch):
    kernels = modules["gate"]._kernels
    library = Path(kernels.library(torch.float32)._name)
    before = library.stat().st_mtime_ns
    monkeypatch.setenv("CXX", "no-such-compiler")
    again = imported(kernels.source.with_name("gate.py"))._kernels
    assert again.library(torch.float32)._name == str(library)
    assert library.stat().st_mtime_ns == before


def test_a_damaged_library_is_built_anew(modules, monkeypatch, tmp_path):
    """To load it would end the process. The compiler here copies a good one, and is a command with an option."""
    good = Path(modules["gate"]._kernels.library(torch.float32)._name)
    damaged = tmp_path / good.name
    damaged.write_bytes(good.read_bytes()[:5000])
    monkeypatch.setenv("SYMGRAD_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    path = modules["gate"]._kernels.source.with_name("gate.py")
    with pytest.warns(RuntimeWarning, match="no C\\+\\+ compiler"):
        imported(path).gate(torch.randn(5), torch.tensor(0.5))
    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\ngood=$1\nfor made; do :; done\ncp "$good" "$made"\n')
    compiler.chmod(0o700)
    monkeypatch.setenv("CXX", f"{compiler} {good}")
    module = imported(path)
    module.gate(torch.randn(5), torch.tensor(0.5))
    assert any(module._kernels.walks.values()) and damaged.stat().st_size > good.stat().st_size


def test_a_library_that_cannot_be_loaded_is_not_kept(modules, monkeypatch, tmp_path):
    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\nfor made; do :; done\necho nothing > "$made"\n')
    compiler.chmod(0o700)
    monkeypatch.setenv("SYMGRAD_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.warns(RuntimeWarning, match="eager operations serve instead"):
        imported(modules["gate"]._kernels.source.with_name("gate.py")).gate(torch.randn(5), torch.tensor(0.5))
    assert list(tmp_path.iterdir()) == [compiler]


def test_a_compiler_may_say_anything(modules, monkeypatch, tmp_path):
    compiler = tmp_path / "compiler"
    compiler.write_bytes(b"#!/bin/sh\nprintf 'caf\\351' >&2\nexit 1\n")
    compiler.chmod(0o700)
    monkeypatch.setenv("SYMGRAD_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.warns(RuntimeWarning, match="failed:\ncaf\N{REPLACEMENT CHARACTER}"):
        imported(modules["gate"]._kernels.source.with_name("gate.py")).gate(torch.randn(5), torch.tensor(0.5))


def test_a_formula_that_a_compiler_did_not_survive(tmp_path):
    """GCC 12 crashed where it made vectors of the two sums of the gradients, which are vectors already."""
    assert written(CHOSEN, tmp_path)._kernels.library(torch.float32) is not None


def test_the_cache_folder_may_be_in_the_home(modules, monkeypatch):
    monkeypatch.setenv("SYMGRAD_CACHE", "~/own")
    assert modules["gate"]._cache_folder() == Path.home() / "own"


def test_no_compiler(modules, monkeypatch, tmp_path):
    monkeypatch.setenv("SYMGRAD_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    module = imported(modules["gate"]._kernels.source.with_name("gate.py"))
    x, beta = torch.randn(5), torch.tensor(0.5)
    with pytest.warns(RuntimeWarning, match="no C\\+\\+ compiler"):
        y = module.gate(x, beta)
    torch.testing.assert_close(y, x * torch.sigmoid(beta * x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module.gate(x, beta)


def test_second_derivatives_that_cannot_be_compiled_leave_plain_calls_their_passes(modules, monkeypatch, tmp_path):
    plain = Path(modules["scale"]._kernels.library(torch.float32)._name)
    (tmp_path / plain.name).write_bytes(plain.read_bytes())
    monkeypatch.setenv("SYMGRAD_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    module = imported(modules["scale"]._kernels.source.with_name("scale.py"))
    x, z = torch.randn(5, requires_grad=True), torch.randn(5, requires_grad=True)
    (grad,) = torch.autograd.grad(module.scale(x, z).sum(), x, create_graph=True)
    with pytest.warns(RuntimeWarning, match="no fused forward mode and second derivatives"):
        assert torch.autograd.grad(grad.sum(), z)[0].tolist() == [1] * 5
    module._kernels.walks.clear()
    module.scale(x, z).sum().backward()
    assert sum(map(bool, module._kernels.walks.values())) == 2


@pytest.mark.parametrize("more", [b"// more\n", b"\xff"], ids=["a comment", "no text"])
def test_a_source_that_was_changed(modules, tmp_path, more):
    source = modules["gate"]._kernels.source
    (tmp_path / "gate.py").write_text(source.with_name("gate.py").read_text())
    (tmp_path / "gate_cpu.cpp").write_bytes(source.read_bytes() + more)
    module = imported(tmp_path / "gate.py")
    with pytest.warns(RuntimeWarning, match="not the file that this module was generated with"):
        module.gate(torch.randn(3), torch.tensor(1.0))


def test_turned_off(modules, monkeypatch):
    monkeypatch.setenv("SYMGRAD_KERNELS", "0")
    module = imported(modules["gate"]._kernels.source.with_name("gate.py"))
    module.gate(torch.randn(3), torch.tensor(1.0))
    assert not module._kernels.walks


def test_processes_that_build_at_once(modules, tmp_path):
    code = f"""
import sys; sys.path.insert(0, {str(modules["two"]._kernels.source.parent)!r})
import torch, two
a, b = two.two(torch.ones(3), torch.zeros(3))
assert a.tolist() == [1, 1, 1] and any(two._kernels.walks.values())
"""
    environment = {**os.environ, "SYMGRAD_CACHE": str(tmp_path)}
    runs = [subprocess.Popen([sys.executable, "-c", code], env=environment) for _ in range(2)]
    assert [r.wait() for r in runs] == [0, 0]
    assert [p.suffix for p in Path(tmp_path).iterdir()] == [".so"]
