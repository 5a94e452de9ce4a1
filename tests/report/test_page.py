"""The report is one page that loads nothing, and says what was measured and proven."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from symgrad.compiler.compile import compile_operation
from symgrad.parse import parse_formulas
from symgrad.report import html, mathml
from symgrad.report.curves import panels
from symgrad.spec import parse_spec

SWISH = """
op: swish
summary: <b>Swish</b> & more
tensors: {x: , beta: }
outputs: {y: x * sigmoid(beta * x)}
"""


@pytest.fixture(scope="module")
def page() -> str:
    rows = [{"op": "swish", "form": "kernels", "elements": 9, "dtype": "float32", "device": "cpu", "forward": 0.001,
             "total": 0.002, "ratio": 1.5}, {"op": "other", "form": "odd"}]  # fmt: skip
    return html(parse_spec(SWISH), bench=rows)


def test_the_page_stands_alone_and_escapes_what_a_spec_says(page: str) -> None:
    assert not re.search(r"<(script|link|img|iframe)\b|\b(src|href)=|url\(|@import", page)
    assert "&lt;b&gt;Swish&lt;/b&gt; &amp; more" in page
    assert "<b>Swish" not in page


def test_every_drawing_and_formula_is_well_formed(page: str) -> None:
    for kind, least in (("svg", 6), ("math", 3), ("table", 5)):
        found = re.findall(rf"<{kind}\b.*?</{kind}>", page, re.DOTALL)
        assert len(found) >= least
        for text in found:
            ElementTree.fromstring(re.sub(r"&#?\w+;", "", text).replace("<br>", ""))


def test_the_page_says_what_was_gained_proven_and_measured(page: str) -> None:
    assert re.search(r"derivatives within [\d.]+ ulp where autograd loses [\d,]+; 8 bytes an element; proven", page)
    assert page.count('class="proven"') == 5
    assert "kernels" in page
    assert "odd" not in page


def test_the_derivation_starts_with_the_formula_as_written_and_with_what_autograd_makes_of_it() -> None:
    text = html(parse_spec(SWISH.replace("x * sigmoid(beta * x)", "x / (1 + exp(-beta * x))")), prove=False)
    rows = re.findall(r"<tr><td>([\w ]+?)(?:<br>.*?)?</td><td><code>(.*?)</code></td><td[^>]*>(.*?)</td>", text)
    assert [(rule, form) for rule, form, _ in rows[:3]] == [
        ("as written", "x / (exp(-beta * x) + 1)"),
        ("sigmoid", "x * sigmoid(beta * x)"),
        ("autograd of the formula as written", "x / (exp(-beta * x) + 1)"),
    ]
    assert "not finite" in rows[2][2]


def test_the_page_is_deterministic_and_needs_no_proof() -> None:
    spec = parse_spec(SWISH)
    assert html(spec, prove=False) == html(spec, prove=False)
    assert "Proof" not in html(spec, prove=False)


def test_each_result_of_an_intermediate_is_an_equation() -> None:
    text = "op: gap\ntensors: {x: {shape: [N, C]}}\nlet: {m: 'max(x, dim=-1)'}\noutputs: {y: m.values - mean(x)}\n"
    page = html(parse_spec(text), prove=False)
    assert all(mathml.name(name) in page for name in ("m_values", "m_indices", "y"))


def test_curves_show_where_autograd_fails_and_the_emitted_form_does_not() -> None:
    operation = compile_operation(parse_formulas(parse_spec(SWISH)))
    ((_, variant),) = operation.variants()
    choice = variant.slope_choices["y", "beta"]
    found = list(panels(operation, variant, ("y", "beta", choice, variant.partials["y", "beta"])))
    assert [p.by for p in found] == ["x", "beta"]
    theirs, ours = (max(e for e in curve.errors if e is not None) for curve in found[0].curves)
    assert ours < 4 < 1e5 < theirs


@pytest.mark.parametrize(
    ("formula", "parts"),
    [
        ("x / (2 * t)", ["<mfrac>", "<mn>2</mn>"]),
        ("-x**-2", ["&#8722;", "<msup>"]),
        ("sqrt(x) * exp(-t)", ["<msqrt>", "<msup><mi>e</mi>"]),
        ("where(x < t, abs(x), 0)", ["<mtable", "&lt;", "otherwise", "|"]),
        ("lgamma(x) + 0.044715", ["ln Γ", "0.044715"]),
    ],
)
def test_formulas_are_set_as_in_print(formula: str, parts: list[str]) -> None:
    program = parse_formulas(parse_spec(f"op: o\ntensors: {{x: , t: }}\noutputs: {{y: '{formula}'}}\n"))
    text = mathml.equation(mathml.name("y"), program.outputs["y"])
    assert all(part in text for part in parts)


def test_the_command_writes_a_page_for_each_spec(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from symgrad.cli import main

    spec = tmp_path / "swish.yaml"
    spec.write_text(SWISH)
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    out = tmp_path / "pages"
    done = CliRunner().invoke(main, ["report", str(spec), "--html", "--no-prove", "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert (out / "swish.html").read_text().startswith("<!doctype html>")
    refused = CliRunner().invoke(main, ["report", str(spec), "--bench", str(bad), "-o", str(out)])
    assert refused.exit_code == 2
    assert "not what `symgrad bench --json` writes" in refused.output


def test_a_function_with_a_letter_of_its_own_is_written_by_that_letter() -> None:
    """Not by the digits of its entity, escaped a second time."""
    program = parse_formulas(parse_spec(SWISH))
    text = mathml.equation(mathml.name("y"), program.outputs["y"])
    assert "<mi>\N{GREEK SMALL LETTER SIGMA}</mi>" in text
    assert "&amp;#" not in text
