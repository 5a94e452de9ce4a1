"""Python branches: they do what the variant that is taken does, and read as a person writes them."""

from __future__ import annotations

from itertools import product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from symgrad.ir.branches import Split
from symgrad.ir.expr import Expr, symbol
from symgrad.targets.torch.conditionals import branches

A, B, C = (symbol(n, "bool") for n in "abc")


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
