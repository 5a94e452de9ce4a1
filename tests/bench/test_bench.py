"""The benchmark: what is measured, with which arguments, and how it is told."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from click.testing import CliRunner
from devices import on_cuda
from fused import imported, needs_compiler

from symgrad.bench import limit as limits
from symgrad.bench import report
from symgrad.bench.arguments import arguments, sized
from symgrad.bench.contenders import Contender
from symgrad.bench.measure import Row, measure
from symgrad.cli import main
from symgrad.compiler.compile import compile_operation
from symgrad.errors import SymgradError
from symgrad.parse import parse_formulas
from symgrad.spec import parse_spec
from symgrad.targets.torch.composite import load_composite

CHANNEL = """
op: channel
tensors: {x: {shape: [N, C, T]}, alpha: {shape: [C], domain: "(0, oo)"}}
outputs: {y: x * alpha}
module: {parameters: {alpha: {init: 1.0, shape: [C]}}}
"""
SCORES = "op: scores\ntensors: {x: {shape: [N, D]}, y: {shape: [N, D]}}\noutputs: {z: x @ y.T}\n"
LAYER = "op: layer\ntensors: {x: {shape: [..., I]}, w: {shape: [O, I]}}\noutputs: {z: x @ w.T}\n"
GATE = "op: gate\ntensors: {x: , beta: }\noutputs: {y: x * sigmoid(beta * x)}\nmodule: {parameters: {beta: 1.0}}\n"


def test_arguments_have_about_the_elements_asked_for():
    x, alpha = arguments(parse_spec(CHANNEL), 1 << 20, torch.float32)
    assert x.shape == (16, 64, 1024) and alpha.shape == (64,)
    assert x.requires_grad and bool((alpha > 0).all())
    x, beta = arguments(parse_spec(GATE), 1 << 12, torch.bfloat16)
    assert x.shape == (4, 1024) and beta.shape == () and x.dtype == torch.bfloat16
    assert arguments(parse_spec(GATE), 100, torch.float64)[0].shape == (1, 100)


def test_products_are_no_larger_than_asked_for() -> None:
    x, y = arguments(parse_spec(SCORES), 1 << 22, torch.float32)
    assert x.shape == y.shape == (2048, 1024)  # of 4096 rows the product would have 1 << 24
    x, weight = arguments(parse_spec(LAYER), 1 << 16, torch.float32)
    assert x.shape[-1] == weight.shape[-1]
    assert x.shape[0] * weight.shape[0] <= 1 << 16


def test_no_dimension_is_left_alone_where_others_are_long() -> None:
    points = "op: near\ntensors: {x: {shape: [n, d]}, z: {shape: [m, d]}}\noutputs: {k: 'exp(-cdist(x, z))'}\n"
    x, z = arguments(parse_spec(points), 1 << 16, torch.float32)
    assert min(*x.shape, *z.shape) >= 16 and x.shape[0] * z.shape[0] * x.shape[1] <= 1 << 16
    fixed = "op: volume\ntensors: {a: {shape: [points, 3, 3]}}\noutputs: {v: det(a)}\n"
    (a,) = arguments(parse_spec(fixed), 9000, torch.float32)
    assert a.shape == (1000, 3, 3)


def test_a_dimension_has_the_size_that_a_hyperparameter_gives() -> None:
    shapes = "{x: {shape: [B, D, T]}, w: {shape: [D, 4]}}"
    spec = parse_spec(
        f"op: conv\ntensors: {shapes}\nhyperparameters: {{channels: 2}}\n"
        "outputs: {y: 'conv1d(x, w[:, None], groups=channels)'}\n"
    )
    composite = load_composite(compile_operation(parse_formulas(spec)))
    x, weight, channels = arguments(sized(spec, composite), 1 << 12, torch.float32)
    assert composite(x, weight, channels).shape[1] == x.shape[1] == channels == 2
    assert sized(parse_spec(GATE), lambda x, beta: x * beta) == parse_spec(GATE)


def test_values_lie_in_a_domain_beyond_the_usual_range() -> None:
    (x,) = arguments(
        parse_spec("op: far\ntensors: {x: {domain: '(5, oo)'}}\noutputs: {y: log(x)}\n"), 64, torch.float32
    )
    assert (x > 5).all()


def row(op: str, form: str, total: float) -> Row:
    return Row(op, form, 10, "float32", 0.0, total / 2, total, (total, total), total, 40, 80)


def test_the_report_sums_up_in_geometric_means():
    rows = [row("a", "kernels", 1.0), row("a", "native", 2.0), row("b", "kernels", 4.0), row("b", "native", 32.0)]
    lines = report.summary(rows)
    assert lines[0] == "float32, 10 elements, cpu: kernels take 2.00 times the limit"
    assert lines[1].strip() == "4.00 times as fast as native over 2 operations, at least 2.00"
    assert len(set(map(len, report.table(rows).splitlines()))) == 1


@needs_compiler
def test_bench_measures_every_form_and_writes_its_figures(tmp_path):
    (tmp_path / "gate.yaml").write_text(GATE)
    (tmp_path / "natives.py").write_text("def gate(x, beta):\n    return x * (beta * x).sigmoid()\n")
    target = tmp_path / "rows.json"
    options = ["--size", "2000", "--rounds", "2", "--no-compile", "--json", str(target)]
    options += ["--natives", str(tmp_path / "natives.py")]
    result = CliRunner().invoke(main, ["bench", str(tmp_path / "gate.yaml"), *options])
    assert result.exit_code == 0, result.output
    found = json.loads(target.read_text())
    assert [r["form"] for r in found] == ["composite", "eager", "kernels", "native", "limit"]
    assert all(r["total"] > 0 for r in found)
    by_form = {r["form"]: r for r in found}
    assert by_form["kernels"]["saved"] <= by_form["composite"]["saved"]


@needs_compiler
def test_build_compiles_what_modules_look_for(tmp_path, monkeypatch):
    monkeypatch.setenv("SYMGRAD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "gate.yaml").write_text(GATE)
    run = CliRunner().invoke
    out = str(tmp_path / "out")
    assert run(main, ["gen", str(tmp_path / "gate.yaml"), "--kernels", "-o", out]).exit_code == 0
    assert run(main, ["build", out, "--dtype", "float32"]).exit_code == 0
    built = {re.split("_[0-9a-f]{24}_", p.name)[0] for p in (tmp_path / "cache").glob("*.*")}
    parts = {"gate_float", "gate_float1"}  # without a compiler, second derivatives need theirs too
    wide = imported(tmp_path / "out" / "gate.py")._kernels.has_wide_vectors()
    assert built == parts | ({f"{part}_narrow" for part in parts} if wide else set())
    assert run(main, ["build", str(tmp_path)]).exit_code == 2


@needs_compiler
@pytest.mark.parametrize("text", ["<<<<<<< ours", "import no_such_module"], ids=["a conflict", "an import"])
def test_a_module_that_cannot_be_imported_does_not_stop_the_others(tmp_path, monkeypatch, text):
    monkeypatch.setenv("SYMGRAD_KERNELS", "0")
    (tmp_path / "gate.yaml").write_text(GATE)
    CliRunner().invoke(main, ["gen", str(tmp_path / "gate.yaml"), "--kernels", "-o", str(tmp_path)])
    (tmp_path / "a.py").write_text(text)
    (tmp_path / "a.cpp").touch()
    result = CliRunner().invoke(main, ["build", str(tmp_path)])
    assert result.exit_code == 1 and "a.py: cannot be imported" in result.output
    assert "gate.py: kernels are turned off" in result.output


def test_build_without_a_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("SYMGRAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", "no-such-compiler")
    (tmp_path / "gate.yaml").write_text(GATE)
    out = str(tmp_path / "out")
    CliRunner().invoke(main, ["gen", str(tmp_path / "gate.yaml"), "--kernels", "-o", out])
    result = CliRunner().invoke(main, ["build", out])
    assert result.exit_code == 1 and "no C++ compiler" in result.output


def test_the_limit_tells_of_a_compiler_that_fails(monkeypatch):
    monkeypatch.setenv("CXX", "false --loudly")
    with pytest.raises(SymgradError, match="false failed"):
        limits._stream.__wrapped__()


def test_an_operation_without_gradients_is_measured(monkeypatch):
    monkeypatch.setattr("symgrad.bench.measure.limit", lambda read, written: lambda: None)
    monkeypatch.setattr("symgrad.bench.measure._peak", lambda action, device: 0)
    times = iter([0.0, *[k * k * 1e-3 for k in range(1, 99)]])
    monkeypatch.setattr("symgrad.bench.measure._now", lambda device: next(times))
    rows = measure("a", [Contender("composite", torch.exp)], [torch.ones(3)], 2)
    for found in rows:
        assert 0 < found.spread[0] <= found.total <= found.spread[1]


def test_what_bench_lacks_is_told_before_it_measures(tmp_path, monkeypatch):
    (tmp_path / "gate.yaml").write_text(GATE)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = CliRunner().invoke(main, ["bench", str(tmp_path / "gate.yaml"), "--plot", "a.png"])
    assert result.exit_code == 1 and "the plot needs matplotlib" in result.output and "gate" not in result.output
    result = CliRunner().invoke(main, ["bench", str(tmp_path / "gate.yaml"), "--natives", str(tmp_path / "gate.yaml")])
    assert result.exit_code == 1 and "is not a Python file" in result.output
    for target, said in ((tmp_path, "is a folder"), (tmp_path / "none" / "a.json", "there is no folder")):
        result = CliRunner().invoke(main, ["bench", str(tmp_path / "gate.yaml"), "--json", str(target)])
        assert result.exit_code == 1 and said in result.output and "| gate" not in result.output
    (tmp_path / "raising.py").write_text("raise RuntimeError('boom')\n")
    result = CliRunner().invoke(main, ["bench", str(tmp_path / "gate.yaml"), "--natives", str(tmp_path / "raising.py")])
    assert result.exit_code == 1 and "raising.py cannot be imported: boom" in result.output


def test_a_plot_is_drawn_and_other_suffixes_are_refused(tmp_path):
    pytest.importorskip("matplotlib")
    report.plot([row("a", "kernels", 1.0), row("a", "limit", 0.5)], tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size
    for name in ("a.text", "a"):
        with pytest.raises(SymgradError, match=f"{name}: a plot has one of the suffixes .*png"):
            report.check_target(tmp_path / name, plotted=True)


def test_a_device_that_is_not_there_is_told(tmp_path):
    (tmp_path / "gate.yaml").write_text(GATE)
    assert CliRunner().invoke(main, ["bench", str(tmp_path / "gate.yaml"), "--device", "tpu"]).exit_code == 2
    if not torch.cuda.is_available():
        result = CliRunner().invoke(main, ["bench", str(tmp_path / "gate.yaml"), "--device", "cuda"])
        assert result.exit_code == 1 and "there is no CUDA device" in result.output


def test_arguments_are_on_the_device():
    x, beta = arguments(parse_spec(GATE), 100, torch.float32, "meta")
    assert x.device.type == beta.device.type == "meta" and x.requires_grad


def test_the_limit_of_a_device_is_a_copy_of_as_many_bytes(monkeypatch):
    sizes = []
    monkeypatch.setattr(limits, "_copying", lambda size, device: sizes.append(size))
    on_device = SimpleNamespace(is_cuda=True, device="cuda", numel=lambda: 100, element_size=lambda: 4)
    limits.limit([on_device], [on_device, on_device])
    assert sizes == [600]


@on_cuda
def test_the_command_on_cuda(tmp_path):
    (tmp_path / "gate.yaml").write_text(GATE)
    options = [
        "--size",
        "2000",
        "--rounds",
        "2",
        "--no-compile",
        "--device",
        "cuda",
        "--json",
        str(tmp_path / "a.json"),
    ]
    result = CliRunner().invoke(main, ["bench", str(tmp_path / "gate.yaml"), *options])
    assert result.exit_code == 0, result.output
    assert {r["device"] for r in json.loads((tmp_path / "a.json").read_text())} == {"cuda"}


def test_without_torch_it_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "gate.yaml").write_text(GATE)
    monkeypatch.setitem(sys.modules, "torch", None)
    result = CliRunner().invoke(main, ["bench", str(tmp_path / "gate.yaml")])
    assert result.exit_code == 1
    assert result.output == 'bench needs PyTorch, which is not installed: python -m pip install "symgrad[torch]"\n'


def test_overlapping_quartiles_are_told():
    close = replace(row("a", "native", 1.1), spread=(0.9, 1.2))
    (line,) = report.doubts([replace(row("a", "kernels", 1.0), spread=(0.8, 1.1)), close, row("a", "limit", 1.0)])
    assert "the quartiles of kernels and native overlap" in line
    assert report.doubts([row("a", "kernels", 1.0), row("a", "native", 2.0), row("b", "native", 1.0)]) == []


@pytest.mark.parametrize(("load", "told"), [(0.1, ""), (1.5, "a load of 1.5 on 2 cores")])
def test_a_busy_machine_is_told(monkeypatch, load, told):
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0, 0))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert told in report.busy() and bool(told) == bool(report.busy())
