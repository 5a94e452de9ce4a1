"""The derivation record says what was derived, why, and how accurate it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiled import OWN_SPECS, compiled, compiled_text

from symgrad.compiler.operation import Operation
from symgrad.explain.derive import derivation


def operation(stem: str) -> Operation:
    return compiled(next(p for p in OWN_SPECS if p.stem == stem)).operation


@pytest.mark.parametrize("path", OWN_SPECS, ids=lambda p: p.stem)
def test_a_record_is_complete(path: Path) -> None:
    item = compiled(path)
    record = derivation(item.operation)
    formulas = dict(record.formula)
    assert set(formulas) == {*(b.name for b in item.spec.let), *(o.name for o in item.spec.outputs)}
    assert all(text in item.spec.text.replace("'", "") or text for text in formulas.values())
    saved = sum(len(v.plan.saved) for _, v in item.operation.variants())
    assert len(record.plan) >= len(item.operation.variants())
    assert len(record.plan) <= saved + len(item.operation.variants())
    assert sum("in all" in entry.what for entry in record.plan) == len(item.operation.variants())
    for row in record.accuracy:
        assert sum(c.chosen for c in record.candidates if c.subject == row.subject) == 1
        assert row.ulp32 >= 0
        assert row.nonfinite >= 0


def test_branches_are_told_apart() -> None:
    record = derivation(operation("branches"))
    subjects = {row.subject for row in record.accuracy}
    assert {"y [flag]", "y [not flag]"} <= subjects


def test_rules_are_told_with_their_reason() -> None:
    record = derivation(compiled_text("\nop: told\ntensors: {x: }\noutputs: {y: log(1 + exp(x)) - x}\n").operation)
    assert all(step.rule and step.reason and step.before != step.after for step in record.steps)


def test_an_override_is_called_one() -> None:
    record = derivation(operation("override_linear"))
    assert any("override" in text for _, text in record.derivatives)


def test_what_stays_inaccurate_is_noted() -> None:
    record = derivation(
        compiled_text(
            "\nop: bad\ntensors: {x: {domain: '(0, 10)'}, y: {domain: '(0, 10)'}}\n"
            "outputs: {z: lgamma(x + y) - lgamma(x)}\n"
        ).operation
    )
    assert any("ulp off" in note for note in record.notes)
    assert not derivation(operation("output_reuse")).notes


def test_what_no_formula_reads_is_noted() -> None:
    tensors = "{x: , w: {shape: [..., d]}, idle: , sized: {shape: [n]}, given: , max: , off: }"
    text = (
        f"\nop: some\ntensors: {tensors}\nhyperparameters: {{k: 1, axis: -1, beta: 1.0}}\n"
        "let: {step: 2*k, never: x + given}\n"
        "outputs: {y: 'max(x + 0*off, step) + softmax(w, dim=axis)/n'}\n"
    )
    notes = derivation(compiled_text(text).operation).notes
    told = [note for note in notes if note.endswith("is read by no output, let or gradient")]
    assert [note.split()[0] for note in told] == ["'idle'", "'max'", "'beta'", "'never'"]
    assert not any("is read by no" in note for path in OWN_SPECS for note in derivation(compiled(path).operation).notes)


def test_exponentials_that_overflow_in_a_weighted_sum_are_noted() -> None:
    text = "op: f\ntensors: {{x: {{shape: [B, N]}}, w: {{shape: [N]}}}}\noutputs: {{y: 'log(sum({}, dim=-1))'}}\n"
    told = [derivation(compiled_text(text.format(of)).operation).notes for of in ("w * exp(x)", "exp(x)", "w * x")]
    assert [any("overflow" in note for note in notes) for notes in told] == [True, False, False]


def test_wide_candidates_say_so() -> None:
    record = derivation(operation("wide_evaluation"))
    assert any(c.chosen and c.text.endswith("(in float64)") for c in record.candidates)


def test_candidates_are_told_in_full() -> None:
    """Nothing that only stands for something while forms are chosen is shown."""
    total = compiled_text(
        "\nop: f\ntensors: {x: , t: }\noutputs: {y: 'sum((x - t)**2, dim=-1, keepdim=True) + exp(x - t)'}\n"
    )
    record = derivation(total.operation)
    texts = [c.text for c in record.candidates] + [t for s in record.steps for t in (s.before, s.after)]
    texts += [entry.what for entry in record.plan]
    assert any("sum((x - t)**2" in text for text in texts)
    assert not any(word in text for text in texts for word in ("_sum", "diff", "held"))


def test_the_memory_of_all_pairs_is_noted() -> None:
    text = 'op: f\ntensors: {{s: {{shape: [B, D]}}, t: {{shape: [C, D]}}}}\noutputs: {{y: "{}"}}\n'
    told = [derivation(compiled_text(text.format(of)).operation).notes for of in ("cdist(s, t)", "norm(s - 1, dim=-1)")]
    assert [any("torch.cdist" in note for note in notes) for notes in told] == [True, False]
