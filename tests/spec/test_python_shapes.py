"""Shapes that functions unpack, and blocks without a gradient, as the keys of a spec."""

from __future__ import annotations

import pytest

from symgrad.errors import SpecError
from symgrad.parse import parse_formulas
from symgrad.spec.model import Spec
from symgrad.spec.python_source import read_functions


def read(*lines: str, arguments: str = "x") -> Spec:
    body = "".join(f"    {line}\n" for line in lines)
    (spec,) = read_functions(f"import symgrad, torch\n@symgrad.op\ndef f({arguments}):\n{body}", "f.py")
    if isinstance(spec, SpecError):
        raise spec
    return spec


def shapes(*lines: str, arguments: str = "x") -> dict[str, tuple[object, ...] | None]:
    return {t.name: t.shape for t in read(*lines, arguments=arguments).tensors}


@pytest.mark.parametrize("unpacked", ["b, n = x.shape", "b, n = x.size()", "(b, n) = x.shape", "[b, n] = x.shape"])
def test_an_unpacked_shape_is_declared(unpacked: str) -> None:
    spec = read(unpacked, "return x[:, 0] / n")
    assert spec.tensors[0].shape == ("b", "n")
    assert not spec.let


def test_leading_dimensions_may_be_left_open() -> None:
    assert shapes("*_, d = x.shape", "return x / d") == {"x": ("...", "d")}


def test_dimensions_without_a_name_get_one_unless_they_may_be_those_of_another_tensor() -> None:
    assert shapes("n, _ = x.shape", "return x / n") == {"x": ("n", "x_1")}
    lines = ("n, d = x.shape", "m, _ = y.shape", "return (x @ y.mT).sum() / m / n")
    assert shapes(*lines, arguments="x, y") == {"x": ("n", "d"), "y": None}


def test_unpacked_names_bring_no_shapes_in_line() -> None:
    """Where they are square torch means the last dimension, and a name would mean the first."""
    spec = read("n, d = x.shape", "return x * x.sum(-1)")
    assert spec.options.align == "positions"
    with pytest.raises(SpecError, match="unpacked names of dimensions bring none in line"):
        parse_formulas(spec)
    parse_formulas(read("n, d = x.shape", "return x * x.sum(-1)[:, None]"))
    assert read("return x", arguments='x: symgrad.tensor["n"]').options.align == "names"


def test_sizes_may_be_taken_from_either_end_and_have_a_name_together() -> None:
    spec = read("h, w = x.shape[-2:]", "n, *_ = x.shape", "size = x.size()", "return x / h / w / n / size[1]")
    assert {f.name: f.text for f in spec.let} == {"h": "x.shape[-2]", "w": "x.shape[-1]", "n": "x.shape[0]"}
    assert spec.outputs[0].formula.text == "x / h / w / n / x.shape[1]"
    assert spec.tensors[0].shape is None


def test_two_tensors_may_share_dimensions() -> None:
    lines = ("n, d = x.shape", "m, d = y.shape", "return (x @ y.mT).sum() / (n * m)")
    assert shapes(*lines, arguments="x, y") == {"x": ("n", "d"), "y": ("m", "d")}


@pytest.mark.parametrize(
    ("lines", "arguments"),
    [
        (("n, d = x.shape", "n = n / 2", "return x / n"), "x"),  # n is not the size alone
        (("x = 2 * x", "n, d = x.shape", "return x / n"), "x"),  # x is not the argument
        (("x, n = x.shape", "return x / n"), "x"),
        (("n, n = x.shape", "return x / n"), "x"),
        (("y, n = x.shape", "return x / n"), "x, y"),
    ],
)
def test_names_that_are_anything_else_declare_nothing(lines: tuple[str, ...], arguments: str) -> None:
    assert set(shapes(*lines, arguments=arguments).values()) == {None}


def test_a_declared_shape_stays_and_what_is_unpacked_of_it_are_its_sizes() -> None:
    spec = read("n, d = x.shape", "return x / n", arguments='x: symgrad.tensor["a", "b"]')
    assert spec.tensors[0].shape == ("a", "b")
    assert {f.name: f.text for f in spec.let} == {"n": "x.shape[0]"}


def test_what_is_assigned_without_a_gradient_is_detached_at_its_place() -> None:
    spec = read("with torch.no_grad():", "    m = x.amax(-1)", "    v, i = x.max(0)", "return x - m + v + i")
    assert {f.name: f.text for f in spec.let} == {
        "m": "detach(x.amax(-1))", "v": "detach(x.max(0)[0])", "i": "detach(x.max(0)[1])",
    }  # fmt: skip
    wrong = read("with torch.no_grad():", "    m = 1 + foo(x)", "return x - m")
    with pytest.raises(SpecError, match=r"f.py:5:17: let.m: unknown function 'foo'"):
        parse_formulas(wrong)


@pytest.mark.parametrize(
    "block", ["with open(x):", "with torch.no_grad() as g:", "with a, b:", "with torch.enable_grad():"]
)
def test_other_blocks_are_refused(block: str) -> None:
    with pytest.raises(SpecError, match=r"of blocks there is 'with torch.no_grad\(\):'"):
        read(block, "    m = x", "return x")


def test_an_argument_with_the_type_of_a_number_is_a_hyperparameter_also_without_a_star() -> None:
    spec = read("return x * eps", arguments="x, eps: float = 1e-5, *, k: int = 2")
    assert [t.name for t in spec.tensors] == ["x"]
    assert [(h.name, h.type) for h in spec.hyperparameters] == [("eps", "float"), ("k", "int")]


def test_nothing_is_returned_without_a_gradient() -> None:
    with pytest.raises(SpecError, match="nothing is returned without a gradient"):
        read("with torch.no_grad():", "    return x")
