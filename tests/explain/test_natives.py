"""What torch has already is found by the formula, and is the same operation."""

from __future__ import annotations

import pytest
import torch

from symgrad.explain.natives import _TABLE, native
from symgrad.parse import parse_formulas
from symgrad.pipeline import compile_spec
from symgrad.spec import parse_spec


def program(formula: str, tensors: str = "a: ", more: str = ""):
    return parse_formulas(parse_spec(f'op: f\ntensors: {{{tensors}}}\noutputs: {{z: "{formula}"}}\n{more}'))


@pytest.mark.parametrize(("text", "row"), _TABLE, ids=lambda value: str(value))
def test_each_row_is_what_torch_computes(text, row):
    tensors = sorted({name for name in ("x", "y") if name in text.replace("exp", "").replace("max", "")})
    found = program(text, ", ".join(f"{t}: " for t in tensors))
    assert native(found) == row
    generator = torch.Generator().manual_seed(0)
    values = [torch.rand(3, 4, dtype=torch.float64, generator=generator) for _ in tensors]
    formula = text.replace("gelu(x)", "gelu(x, approximate='none')")
    functions = {
        name: getattr(torch, name) for name in ("sigmoid", "tanh", "abs", "clamp", "log", "sqrt", "mean", "sum")
    }
    functions |= {"softmax": torch.softmax, "log_softmax": torch.log_softmax, "logsumexp": torch.logsumexp}
    functions |= {"softplus": torch.nn.functional.softplus, "gelu": torch.nn.functional.gelu}
    expected = eval(formula, {"__builtins__": {}, **functions, **dict(zip(tensors, values, strict=True))})
    torch.testing.assert_close(row.load()(*values), expected)


@pytest.mark.parametrize(
    ("formula", "tensors", "name"),
    [
        ("exp(a)", "a: ", "torch.exp"),
        ("a*sigmoid(a)", "a: ", "torch.nn.functional.silu"),
        ("atan2(a, b)", "a: , b: ", "torch.atan2"),
        ("2*exp(a)", "a: ", None),
        ("atan2(b, a)", "a: , b: ", None),
        ("b * sigmoid(b) + 0*a", "a: , b: ", None),
    ],
)
def test_it_is_found_by_the_formula(formula, tensors, name):
    found = native(program(formula, tensors))
    assert (found and str(found)) == name


@pytest.mark.parametrize("more", ["gradients: {a: grad_z}", "hyperparameters: {k: 2.0}"])
def test_an_operation_with_something_of_its_own_is_its_own(more):
    assert native(program("exp(a)", more=more)) is None


def test_gen_says_so():
    notes = compile_spec(parse_spec("op: f\ntensors: {a: }\noutputs: {z: 'tanh(a)'}\n")).derivation.notes
    assert "torch has this as one operation: torch.tanh" in notes


def test_texts_that_may_be_anything_are_told():
    kind = "hyperparameters: {kind: {type: str, default: one}}"
    text = f"op: f\ntensors: {{a: }}\n{kind}\noutputs: {{z: \"where(kind == 'one', 2*a, a)\"}}\n"
    (note,) = [n for n in compile_spec(parse_spec(text)).derivation.notes if "compared" in n]
    assert note == "'kind' is compared with 'one' and may be any other text, too; declare its `choices`"
    declared = text.replace("default: one", "default: one, choices: [one, two]")
    assert not [n for n in compile_spec(parse_spec(declared)).derivation.notes if "compared" in n]
