"""The whole way from a spec to its texts: deterministic, self-contained and light."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from compiled import OWN_SPECS, SAMPLE, compiled

from symgrad.accuracy.candidates import Choice
from symgrad.compiler import workbench
from symgrad.errors import SpecError
from symgrad.ir.expr import Expr
from symgrad.pipeline import compile_spec
from symgrad.spec import load_spec, parse_spec
from symgrad.targets.formatting import format_python

REPOSITORY = Path(__file__).parents[1]
SWISH = """
op: {op}
tensors: {{x: , beta: }}
outputs: {{y: x * sigmoid(beta * x)}}
"""
# Names, sums and sets whose order a hash could decide.
TANGLED = """
op: tangled
tensors: {x: , y: , z: , mask: {dtype: bool}}
hyperparameters: {alpha: 0.5, flag: true, mode: {type: str, choices: [one, two], default: one}}
let: {d: x - y, s: x * z + alpha}
outputs:
  a: where(flag, where(mask, d * s, s), d)
  b: where(mode == "two", x * y + y * z, x - z)
"""


def generated(text: str, *, cwd: Path, seed: str, before: str = "") -> str:
    """Both texts of a spec, made in a process of its own."""
    code = (
        "import sys\nfrom symgrad.pipeline import compile_spec\nfrom symgrad.spec import parse_spec\n"
        f"if {before!r}: compile_spec(parse_spec({before!r}))\n"
        f"done = compile_spec(parse_spec({text!r}))\n"
        "sys.stdout.buffer.write((done.module + done.test + repr(done.derivation)).encode())\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *sys.path])}
    done = subprocess.run([sys.executable, "-c", code], cwd=cwd, env=environment, capture_output=True, check=True)
    return done.stdout.decode()


@pytest.mark.parametrize("text", [TANGLED, SWISH.format(op="swish")], ids=["tangled", "swish"])
def test_the_same_spec_gives_the_same_bytes(text: str, tmp_path: Path) -> None:
    first = generated(text, cwd=REPOSITORY, seed="0")
    assert first == generated(text, cwd=tmp_path, seed="4242", before=SWISH.format(op="other").replace("beta", "z"))


def test_other_specs_before_change_nothing() -> None:
    paths = OWN_SPECS[:3]
    alone = {p: compile_spec(load_spec(p)).module for p in paths}
    assert {p: compile_spec(load_spec(p)).module for p in reversed(paths)} == alone
    first, second = (compile_spec(parse_spec(SWISH.format(op=op)).without_kernels()).module for op in ("aaa", "bbb"))
    assert second == first.replace("aaa", "bbb").replace("Aaa", "Bbb")


def test_a_simple_spec_needs_neither_torch_nor_sympy() -> None:
    code = (
        "import sys\nfrom symgrad.pipeline import compile_spec\nfrom symgrad.spec import parse_spec\n"
        f"compile_spec(parse_spec({SWISH.format(op='swish')!r}))\n"
        "print(*sorted({m.partition('.')[0] for m in sys.modules} & {'torch', 'sympy', 'numpy'}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert not done.stdout.strip()


@pytest.mark.parametrize("path", SAMPLE, ids=lambda p: p.stem)
def test_a_module_is_formatted_and_imports_only_torch(path: Path) -> None:
    text = compiled(path).text
    tree = ast.parse(text)
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    relative = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.level]
    assert all(a.name in ("_runtime", "_special") for n in relative for a in n.names)  # which all of a folder share
    imported |= {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and not n.level}
    standard = set(sys.stdlib_module_names) | {"torch"}
    assert {name.partition(".")[0] for name in imported} <= standard
    top_level = {id(n) for n in tree.body}
    assert all(id(n) in top_level for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module == "torch")
    assert max(map(len, text.splitlines())) <= 160
    assert text.endswith("\n")
    assert not any(line != line.rstrip() for line in text.splitlines())


def test_texts_are_formatted_by_ruff_and_nothing_else() -> None:
    done = compile_spec(parse_spec(SWISH.format(op="swish")))
    assert format_python(done.module) == done.module
    assert done.spec.op == "swish"
    ast.parse(done.test)


def test_formatting_refuses_what_is_no_python() -> None:
    from symgrad.errors import SymgradError

    assert format_python("x=1") == "x = 1\n"
    with pytest.raises(SymgradError, match="bug of symgrad"):
        format_python("def (:")


def test_a_mistake_in_a_formula_is_a_spec_error() -> None:
    with pytest.raises(SpecError) as caught:
        compile_spec(parse_spec("\nop: wrong\ntensors: {x: }\noutputs: {y: sin(z), w: 'cos(x, x)'}\n"))
    assert len(caught.value.mistakes) == 2


def test_an_operation_without_passes_is_the_same_with_kernels() -> None:
    """Its products are not computed again in backward, as what stands in a register would be."""
    spec = parse_spec("op: layers\ntensors: {x: , w: , v: }\noutputs: {y: 'tanh(x @ w) @ v'}\n")
    assert compile_spec(spec.with_kernels()).module == compile_spec(spec).module


def test_a_form_is_searched_once_for_all_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[object] = []
    search = workbench.choose

    def counted(formula: Expr, *rest: Any, **options: Any) -> Choice:
        found.append(formula)
        return search(formula, *rest, **options)

    monkeypatch.setattr(workbench, "choose", counted)
    compile_spec(parse_spec(SWISH.format(op="swish") + "options: {targets: [torch, jax, mlx]}\n"))
    assert found
    assert len(found) == len(set(found)), "eager and fused forms are the same"
