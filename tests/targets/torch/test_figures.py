"""The tables of true values hold what a generated test can compare."""

from __future__ import annotations

import math

from compiled import compiled_text

from symgrad.targets.torch.figures import figures
from symgrad.targets.torch.layout import Layout


def test_a_value_without_conditioning_is_no_row() -> None:
    tensors = "{x: , mu: , b: {domain: '(0, oo)'}}"
    item = compiled_text(f"\nop: growth\ntensors: {tensors}\noutputs: {{y: -exp(-(x-mu)/b) - log(b)}}\n")
    rows = [row for figure in figures(Layout(item.operation)) for row in figure.rows]
    assert rows
    assert all(math.isfinite(float(cell)) for row in rows for cell in row.strip("()").split(", "))


def test_the_rows_of_a_variant_lead_to_it() -> None:
    item = compiled_text(
        "\nop: branchy\ntensors: {x: }\nhyperparameters: {n: 0}\noutputs: {y: 'where(n > 0, x**n, -x)'}\n"
        "test: {values: {n: [0, 2]}}\n"
    )
    settings = [{row.strip("()").split(", ")[1] for row in f.rows} for f in figures(Layout(item.operation))]
    assert all(len(found) == 1 for found in settings), settings


def test_no_row_is_a_point_where_less_is_kept_than_is_promised() -> None:
    """Far from 1, of what is subnormal in float32, digits are lost that no figure tells of."""
    tensors = "{nu: {domain: '(0, oo)'}, temp: {domain: '(0, oo)'}}"
    item = compiled_text(f"\nop: planck\ntensors: {tensors}\noutputs: {{y: log(nu**3 / (exp(nu / temp) - 1))}}\n")
    rows = {
        f.quantity: [tuple(map(float, row.strip("()").split(", "))) for row in f.rows]
        for f in figures(Layout(item.operation))
    }
    assert rows["dy/dtemp"]
    assert all(nu / temp / temp > 1e-37 for nu, temp, *_ in rows["dy/dtemp"])
