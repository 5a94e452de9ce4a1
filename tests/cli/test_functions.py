"""`symgrad functions`: every row of the tables, with what it says."""

from __future__ import annotations

import pytest

from symgrad.cli.functions import entries, markdown, named
from symgrad.ops.functions import FUNCTIONS
from symgrad.ops.tensors import ROWS
from symgrad.parse.composites import COMPOSITES
from tests.cli.test_cli import run


def test_every_function_and_tensor_operation_is_listed():
    names = [found.name for found in entries()]
    assert names == [
        *sorted(name for name, row in FUNCTIONS.items() if not row.internal),
        *sorted([*(row.name for row in ROWS), *(signature.partition("(")[0] for signature in COMPOSITES)]),
    ]
    told = run("functions").stdout.splitlines()
    assert len(told) == len(names)
    assert "logsumexp(input, dim=None, keepdim=False)" in told


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("Abs", ["abs(x)", "  also Abs", "  d/dx = sign(x)", "  where all arguments are 0: d/dx = 0"]),
        ("log", ["log(x[, base])", "  d/dx = 1 / x", "  for x in (0, oo)", "  kernels: C++, Triton"]),
        ("silu", ["  silu(x) = x * sigmoid(x)", "  kernels: C++, Triton"]),
        ("maximum", ["  where all arguments are 0: d/da = 0.5, d/db = 0.5"]),
        ("besselj", ["besselj(n, x)", "  besselj(0, x) = bessel_j0(x)", "  besselj(1, x) = bessel_j1(x)"]),
        ("zeta", ["zeta(s[, q])", "  d/dq = -s * zeta(s + 1, q)", "  kernels: none: C++ has no spelling of it"]),
    ],
)
def test_one_is_told_in_full(name, lines):
    told = run("functions", name)
    assert told.exit_code == 0
    assert [line for line in told.stdout.splitlines() if line in lines] == lines, told.stdout


def test_an_unknown_one_is_a_mistake():
    told = run("functions", "sigmod")
    assert (told.exit_code, told.stderr) == (1, "there is no function 'sigmod'; did you mean 'sigmoid'?\n")
    assert "lists them all" in run("functions", "nonsense").stderr


def test_one_that_is_written_otherwise_is_told_so():
    assert run("functions", "inner").stderr == "there is no function 'inner'; write a @ b.mT\n"
    assert run("functions", "where").stderr.startswith("'where' is a form of the language")


@pytest.mark.parametrize(
    "call", ["gather(input, dim, index)", "dropout(input, p, seed)", "roll(input, shifts, dims=None)"]
)
def test_arguments_stand_in_the_order_in_which_they_are_given(call):
    assert run("functions", call.partition("(")[0]).stdout.splitlines()[0] == call


def test_of_an_operation_on_tensors_nothing_is_said_of_kernels():
    assert run("functions", "sum").stdout == "sum(input, dim=None, keepdim=False)\n"


def test_every_entry_says_something():
    for found in entries():
        assert found in named(found.name)
        assert found.name not in FUNCTIONS or found.means or found.derivative, found.name


def test_a_formula_of_torch_is_told_with_its_formula():
    told = run("functions", "glu").stdout.splitlines()
    assert told == ["glu(input, dim=-1)", "  = chunk(input, 2, dim)[0] * sigmoid(chunk(input, 2, dim)[1])"]


def test_the_page_is_three_tables_with_whole_rows():
    rows = [line for line in markdown().splitlines() if line.startswith("|")]
    assert len(rows) == len(entries()) + 6
    assert {line.replace("\\|", "").count("|") for line in rows} == {6, 3}
