"""What is kept in fewer bits: which value it is, what it takes, and where it stands."""

from __future__ import annotations

import pytest
from compiled import compiled_text

from symgrad.errors import SpecError
from symgrad.plan.packing import is_inexact
from symgrad.plan.saving import Plan
from symgrad.spec.model import FORMS

PLAIN = "op: f\ntensors: {{x: }}\noutputs: {{y: {}}}\n"
GELU = "op: f\ntensors: {x: }\noutputs: {y: gelu(x)}\n"
MATRIX = "op: f\ntensors: {x: {shape: [N, D]}, w: {shape: [H, D]}}\nlet: {h: x @ w.T}\noutputs: {y: gelu(h)}\n"


def planned(text: str, save: str) -> Plan:
    ((_, variant),) = compiled_text(f"{text}options: {{save: {save}}}\n").operation.variants()
    return variant.plan


@pytest.mark.parametrize("form", ["float8", "int8"])
def test_a_tensor_takes_a_byte_an_element(form: str) -> None:
    (saved,) = planned(GELU, f"{{x: {form}}}").saved
    assert (saved.source, saved.bytes, is_inexact(saved)) == ("input", 1.0, True)


def test_a_mask_takes_a_bit_and_is_exact() -> None:
    (saved,) = planned("op: f\ntensors: {x: }\nlet: {m: x > 0}\noutputs: {y: 'where(m, x, 0)'}\n", "{m: bit}").saved
    assert (saved.source, saved.bytes, is_inexact(saved)) == ("mask", 1 / 8, False)


def test_the_mask_of_an_output_is_named_by_it() -> None:
    saved = planned("op: f\ntensors: {x: , b: }\noutputs: {y: relu(x + b)}\n", "{y: bit}").saved
    assert [(s.source, s.bytes) for s in saved] == [("mask", 1 / 8)]


def test_what_is_computed_of_values_that_are_kept_stands_beside_them_and_can_be_recomputed() -> None:
    plan = planned(MATRIX, "{h: float8}")
    assert [s.value.name for s in plan.base] == ["x", "w"]
    assert [is_inexact(s) for s in plan.extras] == [True]


def test_it_takes_the_place_of_what_it_is_computed_from_where_nothing_else_reads_that() -> None:
    plan = planned("op: f\ntensors: {a: , b: }\nlet: {t: a + b}\noutputs: {y: gelu(t)}\n", "{t: int8}")
    assert [(s.value.name, s.spared) for s in plan.base] == [("a", True), ("b", True)]
    assert [(s.source, s.bytes) for s in plan.extras] == [("intermediate", 1.0)]
    assert plan.bytes == 1.0


def test_every_form_has_what_it_loses() -> None:
    assert [name for name, error in FORMS.items() if not error] == ["bit"]


@pytest.mark.parametrize(
    ("text", "save", "message"),
    [
        (GELU, "{z: int8}", "options.save.z: no tensor, intermediate or output is called 'z'"),
        (GELU, "{x: int4}", "options.save.x: must be float8, int8 or bit, not the text 'int4'"),
        (GELU, "{x: bit}", "options.save.x: backward keeps no mask of x; it reads x"),
        (GELU, "{x: int8}, kernels: all", "options.kernels: fused passes keep no packed values"),
        (
            "op: f\ntensors: {x: }\noutputs: {y: relu(x)}\n",
            "{x: int8}",
            "backward keeps no numbers of x; it reads x > 0",
        ),
        (
            "op: f\ntensors: {x: , w: }\noutputs: {y: x + w}\n",
            "{x: int8}",
            "backward keeps no numbers of x; it reads nothing",
        ),
    ],
)
def test_what_cannot_be_packed_is_refused_at_its_place(text: str, save: str, message: str) -> None:
    with pytest.raises(SpecError) as error:
        planned(text, save)
    assert message in str(error.value)


def test_a_condition_that_is_named_is_kept_beside_the_tensor_that_it_is_of() -> None:
    text = "op: f\ntensors: {x: }\nlet: {m: x > 0}\noutputs: {y: 'where(m, x**2, 3*x)'}\n"
    assert [(s.source, s.bytes) for s in planned(text, "{x: int8, m: bit}").saved] == [("input", 1.0), ("mask", 1 / 8)]
