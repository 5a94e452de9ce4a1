"""What generated modules say about themselves is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from compiled import OWN_SPECS, SAMPLE, SPECS, compiled, compiled_text
from hypothesis import given, settings
from hypothesis import strategies as st

from symgrad.ir.expr import symbol
from symgrad.parse import parse_expression
from symgrad.targets.formatting import format_python
from symgrad.targets.torch import docs
from symgrad.targets.torch.docs import broken, escaped, listed, one_or_more_lines, wrapped
from symgrad.targets.torch.layout import Layout


@pytest.mark.parametrize(
    "items, text", [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_lists_read_as_english(items: list[str], text: str) -> None:
    assert listed(items) == text


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.sampled_from("ab \"\\'{}%\né"), max_size=30))
def test_any_text_may_stand_in_a_docstring(text: str) -> None:
    assert eval(f'"""{escaped(text)}"""') == text
    assert eval(f'"""{escaped(text)}\n"""') == text + "\n"


@given(st.lists(st.text(alphabet="abc ", max_size=40), max_size=6))
def test_wrapping_keeps_every_word(paragraphs: list[str]) -> None:
    text = "\n\n".join(paragraphs)
    assert wrapped(text, 20).split() == text.split()
    assert all(len(line) <= 20 or " " not in line for line in wrapped(text, 20).splitlines())


@pytest.mark.parametrize(
    "text, lines",
    [
        ("a + b", ["a + b"]),
        ("loss * (first - second) + third * fourth", ["loss * (first - second)", "+ third * fourth"]),
        ("where(a > b, first + second, third)", ["where(a > b, first", "+ second, third)"]),
        ("f(first, second + third, fourth)", ["f(first, second + third,", "fourth)"]),
        ("a / b * (first - second - third)", ["a / b * (first - second", "- third)"]),
        ("one_long_name_without_a_place_to_break", ["one_long_name_without_a_place_to_break"]),
    ],
)
def test_a_formula_ends_its_lines_where_little_is_torn_apart(text: str, lines: list[str]) -> None:
    got = broken(text, 24)
    assert " ".join(got) == text
    assert got == lines


@pytest.mark.parametrize("path", SAMPLE, ids=lambda p: p.stem)
def test_a_docstring_is_complete(path: Path) -> None:
    item = compiled(path)
    spec = item.spec
    documentation = item.module.__doc__ or ""
    flat = " ".join(documentation.split())
    assert spec.summary.rstrip(".") in flat
    assert " ".join(spec.reference.split()) in flat
    for binding in (*spec.let, *(o.formula for o in spec.outputs)):
        assert re.search(rf"^ +{re.escape(binding.name)} *= ", documentation, re.MULTILINE)
    assert "Residuals:" in flat
    assert all(len(line) <= 110 for line in documentation.splitlines())
    for doc in (*(t.doc for t in spec.tensors), *(h.doc for h in spec.hyperparameters)):
        assert " ".join(doc.split()) in " ".join((item.function.__doc__ or "").split())


def test_derivatives_are_written_in_the_spec_language() -> None:
    item = compiled_text("\nop: said\ntensors: {x: , beta: }\noutputs: {y: x * sigmoid(beta * x)}\n")
    rows = re.findall(r"^ +dy/d(\w+) += (.*)$", item.module.__doc__ or "", re.MULTILINE)
    assert [name for name, _ in rows] == ["x", "beta"]
    x, beta = (
        torch.tensor(0.7, dtype=torch.float64, requires_grad=True),
        torch.tensor(1.3, dtype=torch.float64, requires_grad=True),
    )
    slopes = torch.autograd.grad(x * torch.sigmoid(beta * x), (x, beta))
    for (_, text), slope in zip(rows, slopes, strict=True):
        parse_expression(text, [symbol("x"), symbol("beta")])
        value = eval(text, {"sigmoid": torch.sigmoid, "x": x.detach(), "beta": beta.detach()})
        torch.testing.assert_close(value, slope)


def test_what_is_said_to_be_saved_is_saved() -> None:
    for path in OWN_SPECS:
        item = compiled(path)
        text = " ".join((item.module.__doc__ or "").split())
        if not any(v.plan.base for _, v in item.operation.variants()):
            assert "Residuals: nothing" in text
        if Layout(item.operation).keeps:
            assert "recomputed where backward is differentiated" in text


def test_an_override_and_its_order_are_told() -> None:
    stems = {p.stem: compiled(p) for p in OWN_SPECS}
    assert "(override)" in (stems["override_linear"].module.__doc__ or "")
    assert "with its own gradient for x" in (stems["override_linear"].module.OverrideLinearFunction.__doc__ or "")
    assert " once." in (stems["once_differentiable"].module.OnceDifferentiableFunction.__doc__ or "")
    assert "evaluated in float64" in " ".join((stems["wide_evaluation"].module.__doc__ or "").split())


def test_docstrings_of_classes_and_errors_read_well() -> None:
    item = compiled_text(
        "\nop: rather_long\nsummary: An operation whose summary takes nearly all of the columns that a line has.\n"
        "tensors: {first_operand: {shape: [n]}, second_operand: {shape: [n]}}\n"
        "hyperparameters: {scale: {type: float, default: 1.0, domain: '(0, oo)'}}\n"
        "outputs: {y: scale * first_operand * second_operand}\n"
        "module: {parameters: {second_operand: {init: 1, shape: [n]}}}\n"
    )
    documented = (item.module.RatherLong, item.module.RatherLongFunction, item.function)
    assert all(len(line) <= 100 for d in documented for line in (d.__doc__ or "").splitlines())
    assert all('"""' not in line or len(line) <= 100 for line in item.text.splitlines())
    for length in range(80, 110):
        text = one_or_more_lines("word " * (length // 5 - 1) + "w" * (4 + length % 5) + ".")
        shown = format_python(f'class A:\n    """{text.replace(chr(10), chr(10) + "    ")}"""\n')
        assert all(len(line) <= 100 for line in shown.splitlines())
    flat = " ".join((item.function.__doc__ or "").split())
    assert "ValueError where scale is out of range or shapes do not fit." in flat


def test_an_argument_is_told_with_its_domain_and_a_class_with_what_is_differentiable() -> None:
    item = compiled_text(
        "\nop: told\ntensors: {x: {domain: '(0, oo)', doc: a length}, t: {domain: '[0, 1]'}}\n"
        "hyperparameters: {slope: {type: float, default: 1.0, domain: '(0, 2]', doc: a factor}}\n"
        "outputs: {y: slope * x * t, above: {expr: x > t, grad: false}}\n"
    )
    lines = [line.strip() for line in (item.function.__doc__ or "").splitlines()]
    assert lines[2:5] == ["x in (0, oo): a length", "t in [0, 1]", "slope in (0, 2]: a factor"]
    assert "; y is differentiable in x and t to any order" in (item.module.ToldFunction.__doc__ or "")


def test_a_class_of_many_tensors_is_told_in_a_line() -> None:
    names = [f"quantity_{c}" for c in "abcdef"]
    item = compiled_text(
        f"\nop: many\ntensors: {{{', '.join(n + ': ' for n in names)}}}\noutputs: {{y: {' * '.join(names)}}}\n"
    )
    assert item.module.ManyFunction.__doc__ == "y of many, differentiable to any order, in any mode."


def test_derivatives_and_residuals_that_nobody_would_read_are_not_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs, "_MOST_LINES", 8)
    item = compiled(SPECS[0].with_name("newton_schulz_inverse.yaml"))
    docstring = docs.module_docstring(Layout(item.operation))
    assert "backward computes them step by step" in docstring
    assert re.search("more intermediates?, which are recomputed", " ".join(docstring.split()))
    assert docstring.count("\n") < 25
