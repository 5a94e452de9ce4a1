"""Names and facts that the methods of a module share, and Python branches."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from compiled import OWN_SPECS, compiled, compiled_text
from hypothesis import given, settings
from hypothesis import strategies as st

from symgrad.backends.torch.layout import Layout, branches
from symgrad.branches import Split
from symgrad.expr import Expr, symbol

A, B, C = (symbol(n, "bool") for n in "abc")


def layout(stem: str) -> Layout:
    return Layout(compiled(next(p for p in OWN_SPECS if p.stem == stem)).operation)


def text_layout(text: str) -> Layout:
    return Layout(compiled_text(text).operation)


# ---------------------------------------------------------------------------------------------- branches
@st.composite
def trees(draw: st.DrawFn, depth: int = 3) -> Any:
    """Trees of conditions with lists of source lines at their ends, many of them equal."""
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        lines = ["log.append(1)", "log.append(2)", "log.append(3)", "if x:\n    log.append(4)", "return log"]
        chosen = draw(st.lists(st.sampled_from(lines), max_size=4))
        flat = [line for text in chosen for line in text.split("\n")]
        return flat[: flat.index("return log") + 1] if "return log" in flat else flat
    condition = draw(st.sampled_from([A, B, C]))
    return Split(condition, draw(trees(depth=depth - 1)), draw(trees(depth=depth - 1)))


def split_on(condition: Expr, then: Any, otherwise: Any) -> Any:
    """A branch whose ends are source lines; the real ones are variants."""
    return Split(condition, then, otherwise)


def run(lines: list[str], **values: bool) -> list[int]:
    body = "\n".join(f"    {line}" for line in ["log = []", *lines, "return log"])
    scope: dict[str, Any] = {}
    exec(f"def f({', '.join(values)}):\n{body}\n", scope)
    result: list[int] = scope["f"](**values)
    return result


@settings(deadline=None, max_examples=120)
@given(trees())
def test_branches_do_what_the_taken_leaf_does(tree: Any) -> None:
    def emitted(node: Any) -> list[str]:
        # The real tree has variants at its ends; here a leaf is its lines.
        return branches(node, lambda leaf: list(leaf), lambda condition: condition.name)  # type: ignore[call-overload]

    lines = emitted(tree)
    for a, b, c, x in product([True, False], repeat=4):
        values = {"a": a, "b": b, "c": c, "x": x}
        leaf = tree
        while isinstance(leaf, Split):
            leaf = leaf.then if values[leaf.condition.name] else leaf.otherwise
        assert run(lines, **values) == run(list(leaf), **values), lines


def test_equal_leaves_need_no_branch() -> None:
    tree = split_on(A, ["p"], split_on(B, ["p"], ["p"]))
    assert branches(tree, lambda leaf: list(leaf), lambda c: c.name) == ["p"]  # type: ignore[call-overload]


def test_chains_read_as_elif() -> None:
    tree = split_on(A, ["p = 1"], split_on(B, ["p = 2"], ["p = 3"]))
    lines = branches(tree, lambda leaf: list(leaf), lambda c: c.name)  # type: ignore[call-overload]
    assert lines == ["if a:", "    p = 1", "elif b:", "    p = 2", "else:", "    p = 3"]


# ---------------------------------------------------------------------------------------------- names
@pytest.mark.parametrize("op, name", [("swish", "Swish"), ("smooth_l1", "SmoothL1"), ("a1_b2", "A1B2"), ("x", "X")])
def test_class_names(op: str, name: str) -> None:
    assert text_layout(f"\nop: {op}\ntensors: {{x0: }}\noutputs: {{y: sin(x0)}}\n").class_name == name


def test_local_names_are_distinct_and_free() -> None:
    found = text_layout(
        "\nop: crowded\ntensors: {ctx: , ctx_: , grad_y: , wants_x: , x: }\nhyperparameters: {_fit: 0.5, torch: 1.0}\n"
        "outputs: {y: ctx * ctx_ + grad_y * x, x_: wants_x * _fit + torch}\n"
    )
    names = [*found.arguments.values(), *found.outputs.values()]
    assert len(set(names)) == len(names)
    assert not {"ctx", "torch", "_fit", "grad_y", "wants_x", "saved"} & set(names)
    fresh = found.names()
    assert fresh.fresh("x") != "x"
    assert fresh.fresh("ctx") != "ctx"


def test_ordinary_names_are_left_alone() -> None:
    found = layout("kept_intermediate")
    assert dict(found.arguments) == {"x": "x", "scale": "scale"}
    assert dict(found.outputs) == {"y": "y"}
    assert found.on_ctx("alpha") == "ctx.alpha"
    assert found.on_ctx("saved_tensors") != "ctx.saved_tensors"


# ---------------------------------------------------------------------------------------------- facts
def test_what_rounds_once_needs_no_wider_type() -> None:
    for formula, widens in {
        "2 * x": False,
        "max(x, 0)": False,
        "-x / 4": False,
        "sin(x)": False,
        "sin(x) * x": True,
        "x.T * 3": False,
        "amax(x, dim=-1, keepdim=True) + x": False,
        "sin(x.mT) * x": True,
        "clamp(x, -2, 0.5) * x": False,
        "clamp(x, -0.3, 0.3)": False,
        "clamp(x, -0.3, 0.3) * x": True,  # the bound is rounded, too
    }.items():
        found = text_layout(f"\nop: rounds\ntensors: {{x: }}\noutputs: {{z: '{formula}'}}\n")
        assert found.widens is widens, formula


def test_a_product_has_operands_of_one_dtype() -> None:
    tensors = "tensors: {x: {shape: [n, k]}, weight: {shape: [m, k]}, bias: {shape: [m]}}"
    for formula, widens in {"x @ weight.T": False, "x @ weight.T + bias": True}.items():
        found = text_layout(f"\nop: affine\n{tensors}\noutputs: {{z: '{formula}'}}\n")
        assert (found.widens, found.widens_slopes) == (widens, widens), formula


def test_accumulate_same_widens_nothing() -> None:
    text = "\nop: same\ntensors: {x: }\noutputs: {y: sin(x) * exp(x)}\noptions: {accumulate: %s}\n"
    assert text_layout(text % "float32").widens
    same = text_layout(text % "same")
    assert not same.widens
    assert not same.widens_slopes


def test_only_what_backward_reads_is_on_ctx() -> None:
    assert layout("branches").hyperparameters_on_ctx == ["flag", "slope"]
    unread = text_layout("\nop: unread\ntensors: {x: }\nhyperparameters: {shift: 0.5}\noutputs: {y: sin(x) + shift}\n")
    assert unread.hyperparameters_on_ctx == []
    assert layout("optional_tensor").absences_on_ctx in ([], ["offset"])


def test_the_differentiable_tensors() -> None:
    assert layout("int_and_bool").differentiable == ["x"]
    assert layout("str_choices").differentiable == ["x"]
    assert layout("wide_evaluation").wide_values
