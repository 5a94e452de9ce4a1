"""Libraries of fused passes: built once, whole, in the user's cache; where they cannot be, eager bodies serve."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from fused import all_written, imported, needs_compiler, written
from fused_specs import CHOSEN, GATE, SCALE, TWO

from symgrad.importing import import_generated

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SYMGRAD_KERNELS", raising=False)
        yield all_written((GATE, SCALE, TWO), tmp_path_factory.mktemp("fused"))


def lose_compilers(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")


def test_libraries_are_cached_by_content(modules, monkeypatch):
    kernels = modules["gate"]._kernels
    library = Path(kernels.library(torch.float32)._name)
    before = library.stat().st_mtime_ns
    lose_compilers(monkeypatch)
    again = imported(kernels.source.with_name("gate.py"))._kernels
    assert again.library(torch.float32)._name == str(library)
    assert library.stat().st_mtime_ns == before


def test_another_command_or_header_makes_another_library(modules, monkeypatch, tmp_path):
    """-ffast-math once left a library that gave exp(1) = 2 to processes without it."""
    source = modules["gate"]._kernels.source
    compiler = os.environ.get("CXX") or shutil.which("g++") or "c++"
    for name in ("gate.py", "gate.cpp", "_kernels.py", "_runtime.py"):
        (tmp_path / name).write_bytes(source.with_name(name).read_bytes())
    found = []
    for command, more in ((compiler, ""), (f"{compiler} -ftrapping-math", ""), (compiler, "// more\n")):
        monkeypatch.setenv("CXX", command)
        (tmp_path / "_kernels.h").write_text(source.with_name("_kernels.h").read_text() + more)
        found.append(imported(tmp_path / "gate.py")._kernels.library(torch.float32)._name)
    assert len(set(found)) == 3


@pytest.mark.skipif(os.name != "posix", reason="another way to say who may write")
def test_a_folder_that_others_may_write_to_is_refused(modules, monkeypatch, tmp_path):
    good = Path(modules["gate"]._kernels.library(torch.float32)._name)
    (tmp_path / good.name).write_bytes(good.read_bytes())
    tmp_path.chmod(0o777)
    monkeypatch.setenv("SYMGRAD_CACHE", str(tmp_path))
    x, beta = torch.randn(5), torch.tensor(0.5)
    with pytest.warns(RuntimeWarning, match="can be written to by others"):
        y = imported(modules["gate"]._kernels.source.with_name("gate.py")).gate(x, beta)
    torch.testing.assert_close(y, x * torch.sigmoid(beta * x))


def test_a_library_without_the_passes_is_refused(modules, monkeypatch, tmp_path):
    good = Path(modules["gate"]._kernels.library(torch.float32)._name)
    other = Path(modules["scale"]._kernels.library(torch.float32, 1)._name)  # has no pass of plain calls
    (tmp_path / good.name).write_bytes(other.read_bytes())
    monkeypatch.setenv("SYMGRAD_CACHE", str(tmp_path))
    x, beta = torch.randn(5), torch.tensor(0.5)
    with pytest.warns(RuntimeWarning, match="has no forward"):
        y = imported(modules["gate"]._kernels.source.with_name("gate.py")).gate(x, beta)
    torch.testing.assert_close(y, x * torch.sigmoid(beta * x))


def test_a_damaged_library_is_built_anew(modules, monkeypatch, tmp_path):
    """To load it would end the process. The compiler here copies a good one, and is a command with an option."""
    good = Path(modules["gate"]._kernels.library(torch.float32)._name)
    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\ngood=$1\nfor made; do :; done\ncp "$good" "$made"\n')
    compiler.chmod(0o700)
    monkeypatch.setenv("SYMGRAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", f"{compiler} {good}")
    path = modules["gate"]._kernels.source.with_name("gate.py")
    made = tmp_path / Path(imported(path)._kernels.library(torch.float32)._name).name
    made.write_bytes(good.read_bytes()[:5000])  # not the one that is loaded
    monkeypatch.setenv("SYMGRAD_CACHE", str(tmp_path))
    compiler.chmod(0o600)
    with pytest.warns(RuntimeWarning, match="no C\\+\\+ compiler"):
        imported(path).gate(torch.randn(5), torch.tensor(0.5))
    compiler.chmod(0o700)
    module = imported(path)
    module.gate(torch.randn(5), torch.tensor(0.5))
    assert any(module._kernels.walks.values()) and made.stat().st_size > good.stat().st_size


def test_a_library_that_cannot_be_loaded_is_not_kept(modules, monkeypatch, tmp_path):
    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\nfor made; do :; done\n[ "$made" = --version ] || echo nothing > "$made"\n')
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
    path = Path(written(CHOSEN, tmp_path).__file__)
    assert import_generated(path)._kernels.library(torch.float32) is not None  # with the flags of users


def test_the_cache_folder_may_be_in_the_home(modules, monkeypatch):
    monkeypatch.setenv("SYMGRAD_CACHE", "~/own")
    assert modules["gate"].rtk._cache_folder() == Path.home() / "own"


def test_without_a_compiler_eager_bodies_serve_after_one_warning(modules, monkeypatch, tmp_path):
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
    lose_compilers(monkeypatch)
    monkeypatch.setenv("SYMGRAD_CACHE", str(tmp_path))
    module = imported(modules["scale"]._kernels.source.with_name("scale.py"))
    x, z = torch.randn(5, requires_grad=True), torch.randn(5, requires_grad=True)
    (grad,) = torch.autograd.grad(module.scale(x, z).sum(), x, create_graph=True)
    with pytest.warns(RuntimeWarning, match="no fused forward mode and second derivatives"):
        assert torch.autograd.grad(grad.sum(), z)[0].tolist() == [1] * 5
    module._kernels.forget()
    module.scale(x, z).sum().backward()
    assert sum(map(bool, module._kernels.walks.values())) == 2


@pytest.mark.parametrize("more", [b"// more\n", b"\xff"], ids=["a comment", "no text"])
def test_a_source_that_was_changed(modules, tmp_path, more):
    source = modules["gate"]._kernels.source
    for name in ("gate.py", "_runtime.py", "_kernels.py"):
        (tmp_path / name).write_bytes(source.with_name(name).read_bytes())
    (tmp_path / "gate.cpp").write_bytes(source.read_bytes() + more)
    (tmp_path / "_kernels.h").write_bytes(source.with_name("_kernels.h").read_bytes())
    module = imported(tmp_path / "gate.py")
    with pytest.warns(RuntimeWarning, match="not the file that this module was generated with"):
        module.gate(torch.randn(3), torch.tensor(1.0))


def test_passes_are_turned_off_by_the_environment(modules, monkeypatch):
    monkeypatch.setenv("SYMGRAD_KERNELS", "0")
    module = imported(modules["gate"]._kernels.source.with_name("gate.py"))
    module.gate(torch.randn(3), torch.tensor(1.0))
    assert not module._kernels.walks


def test_processes_that_build_at_once_and_import_no_compiler_of_torch(modules, tmp_path):
    code = f"""
import sys, torch
from pathlib import Path
from symgrad.importing import import_generated
two = import_generated(Path({str(modules["two"]._kernels.source.with_name("two.py"))!r}))
a, b = two.two(torch.ones(3), torch.zeros(3))
assert a.tolist() == [1, 1, 1] and any(two._kernels.walks.values())
assert "torch._dynamo" not in sys.modules  # which takes a second, and memory
"""
    environment = {**os.environ, "SYMGRAD_CACHE": str(tmp_path)}
    runs = [subprocess.Popen([sys.executable, "-c", code], env=environment) for _ in range(2)]
    assert [r.wait() for r in runs] == [0, 0]
    assert [p.suffix for p in Path(tmp_path).iterdir()] == [".so"]
