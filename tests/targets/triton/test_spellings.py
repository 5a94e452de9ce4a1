"""Every spelling of the Triton backend: its value through the interpreter, and that CUDA's compiler takes it."""

from __future__ import annotations

import ast
import math
import re
from fractions import Fraction
from itertools import product

import pytest
import torch
from nightly import sampled

from symgrad.accuracy.evaluate import exact
from symgrad.accuracy.machine import machine
from symgrad.accuracy.widening import NARROW, WIDEN, with_wide_angles
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import Expr, make, num, symbol
from symgrad.ir.traversal import topological
from symgrad.ops.functions import FUNCTIONS
from symgrad.targets.torch.runtime import _special
from symgrad.targets.triton.printer import TritonPrinter
from symgrad.targets.triton.shared import MODULE, shared_files
from symgrad.targets.triton.spellings import SPELLINGS

pytest.importorskip("triton")
import interpreted
import ptx

P, Q, R = (symbol(name, "tensor") for name in ("p", "q", "r"))
ROWS = ("row_reciprocal", "row_value", "row_sum", "row_max", "row_min", "row_place", "row_at", "row_first")
WIDE = (WIDEN, *NARROW)


def _arity(name: str) -> int:
    return len(set(re.findall(r"\{\d\}", SPELLINGS[name].text)))


FUNCTIONS_HERE = [n for n in SPELLINGS if n not in (*ROWS, *WIDE) and n != "reciprocal"]
EXPRESSIONS: dict[str, tuple[Expr, tuple[float, float]]] = {
    **{name: (make(name, *(P, Q, R)[: _arity(name)]), FUNCTIONS[name].sample) for name in FUNCTIONS_HERE},
    **{f"wide_{name}": (with_wide_angles([make(name, P * Q)])[0], (0.3, 1.0)) for name in NARROW.values()},
    "quotient": (P / Q, (0.5, 3.0)),
    "reciprocal": (1 / Q, (0.5, 3.0)),
    "power": (P ** Fraction(17, 10), (0.1, 3.0)),
    "exponential": (ex.power(num(Fraction(1, 3)), P), (-3.0, 3.0)),
    "square": (P**2, (0.1, 3.0)),
    "cube": (P**3, (0.1, 3.0)),
    "root": (ex.sqrt(P), (0.1, 3.0)),
    "root_cubed": (P ** Fraction(3, 2), (0.1, 3.0)),
    "inverse_root": (P ** Fraction(-1, 2), (0.1, 3.0)),
    "chosen": (truth.where(truth.compare("lt", P, 0), Fraction(1, 10), Fraction(1, 3)), (-1.0, 1.0)),
    "chosen_argument": (make("exp", truth.where(truth.compare("lt", P, 0), Fraction(1, 10), 1)), (-1.0, 1.0)),
    "bounded": (make("maximum", P, num(Fraction(1, 10))), (-1.0, 1.0)),
    "angle": (make("atan2", P, num(Fraction(1, 10))), (-1.0, 1.0)),
    "logical": (
        truth.where(
            make(
                "or",
                make("and", truth.compare("lt", P, 0), truth.compare("ge", Q, 0)),
                make("not", truth.compare("le", P, Q)),
            ),
            P,
            Q,
        ),
        (-1.0, 1.0),
    ),
    "arithmetic": (ex.PI * (P + Fraction(1, 3)) + ex.sqrt(2) * Q, (0.1, 1.0)),
}
COUNT = 64
SPECIAL = (0.0, -0.0, math.inf, -math.inf, math.nan, 1e-30, 100.0, -100.0)


def printed(name: str) -> str:
    """The source of an expression with all that it calls."""
    node = machine([EXPRESSIONS[name][0]])[0]
    value = TritonPrinter({s: s.name for s in (P, Q, R)}, {}, "p").block(node)
    return ast.unparse(value) + shared_files()[MODULE]


def source() -> str:
    """A file with a kernel for each of them."""
    constants: dict[Expr, str] = {}
    parts = []
    for name, (node, _) in EXPRESSIONS.items():
        names = {s: s.name for s in (P, Q, R) if s in node.symbols}
        arguments = ", ".join(names.values())
        loads = "".join(f"    {n} = tl.load({n}_in + at)\n" for n in names.values())
        text = ast.unparse(TritonPrinter(names, constants, next(iter(names.values()))).block(machine([node])[0]))
        parts.append(f"@triton.jit\ndef of_{name}({arguments}):\n    return {text}\n")
        parts.append(
            f"@triton.jit\ndef run_{name}({', '.join(f'{n}_in' for n in names.values())}, out, BLOCK: tl.constexpr):\n"
            f"    at = tl.arange(0, BLOCK)\n{loads}    tl.store(out + at, of_{name}({arguments}))\n"
        )
    from symgrad.targets.constants import constant_value

    head = "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n\n"
    head += "".join(f"{name} = tl.constexpr({constant_value(node)!r})\n" for node, name in constants.items())
    return "\n\n".join([head, *parts, shared_files()[MODULE]]) + "\n"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    file = tmp_path_factory.mktemp("spellings") / "spellings.py"
    file.write_text(source())
    return file


def test_every_spelling_is_here() -> None:
    assert set(SPELLINGS) - {*ROWS, *WIDE} <= set(EXPRESSIONS)
    assert {n.op for node, _ in EXPRESSIONS.values() for n in topological(node)} >= set(WIDE)


def arguments(name: str, dtype: torch.dtype) -> list[torch.Tensor]:
    node, (low, high) = EXPRESSIONS[name]
    generator = torch.Generator().manual_seed(0)
    return [
        (low + (high - low) * torch.rand(COUNT, generator=generator, dtype=torch.float64)).to(dtype)
        for s in (P, Q, R)
        if s in node.symbols
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_a_spelling_has_the_value_of_its_function(interpret, path, name: str, dtype: torch.dtype) -> None:
    node, _ = EXPRESSIONS[name]
    symbols = [s for s in (P, Q, R) if s in node.symbols]
    tensors, eps = arguments(name, dtype), torch.finfo(dtype).eps
    got = interpret(interpreted.values, path, f"run_{name}", tensors)
    for k in range(COUNT):
        (want,) = exact([node], {s: t[k].item() for s, t in zip(symbols, tensors, strict=True)}, 200)
        assert got[k].item() == pytest.approx(float(want), rel=4 * eps, abs=eps / 4), name


@pytest.mark.parametrize("name", FUNCTIONS_HERE)
def test_special_values_are_those_of_torch(interpret, path, name: str) -> None:
    count = _arity(name)
    values = torch.tensor(SPECIAL, dtype=torch.float64)
    grid = torch.cartesian_prod(*[values] * count) if count > 1 else values[:, None]
    tensors = [
        t.contiguous()
        for t in torch.nn.functional.pad(grid, (0, 0, 0, 2 ** math.ceil(math.log2(len(grid))) - len(grid))).unbind(1)
    ]
    got = interpret(interpreted.values, path, f"run_{name}", tensors)
    want = eval(
        FUNCTIONS[name].torch.format("a", "b", "c"),
        {"torch": torch, "F": torch.nn.functional, "_special": _special, **dict(zip("abc", tensors, strict=False))},
    )
    torch.testing.assert_close(got, want, rtol=1e-13, atol=1e-16, equal_nan=True)


# What hardware approximates. Inside of libdevice it is accounted for, but must not stand for a whole function.
APPROXIMATE = re.compile(r"\b(?:sin|cos|tanh|lg2|sqrt|rsqrt|rcp|div|ex2)\.(?:approx|full)[.\w]*")
NEVER = re.compile(r"(?:sin|cos|tanh)\.approx|div\.full")


@pytest.mark.parametrize(("name", "dtype"), sampled(product(EXPRESSIONS, (torch.float32, torch.float64)), 9), ids=str)
def test_the_compiler_takes_it(without_device, path, name: str, dtype: torch.dtype) -> None:
    text = without_device(ptx.of_kernel, path, f"run_{name}", dtype, len(arguments(name, dtype)) + 1)
    assert not NEVER.findall(text)
    if "libdevice" not in printed(name).replace("libdevice.sqrt_rn", ""):
        assert not [a for a in APPROXIMATE.findall(text) if not a.endswith(".f64")]  # seeds of exact divisions
