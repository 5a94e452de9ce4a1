"""Wrong expressions do not travel: each stage's result is held against the tables."""

from __future__ import annotations

import pytest

from symgrad.compiler import variant
from symgrad.compiler.compile import compile_operation
from symgrad.compiler.verify import InvalidExpression, check, verified, verifying
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.truth import compare
from symgrad.parse import parse_formulas
from symgrad.spec import parse_spec

X, Y = symbol("x"), symbol("y")

WRONG = [
    (make("softpluss", X), "no operation of this name"),
    (make("exp", X, Y), "takes 1 to 1 arguments, not 2"),
    (make("pow", X), "takes 2 to 2 arguments, not 1"),
    (make("where", X, X, Y), "chooses by a truth value"),
    (make("and", X, compare("lt", X, Y)), "takes truth values"),
    (make("add", X, ex.text("mean")), "takes no texts"),
    (make("softmax", X), "lacks dim"),
    (make("matmul", X), "takes 2 to 2 arguments, not 1"),
    (make("tanh", make("softpluss", X)), r"softpluss\(x\): no operation"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG, ids=lambda v: v if isinstance(v, str) else v.op)
def test_a_wrong_node_is_told(wrong: Expr, message: str) -> None:
    with pytest.raises(InvalidExpression, match=message):
        check(wrong)


def test_a_symbol_that_is_not_known_is_told() -> None:
    check(X * Y, {X, Y})
    with pytest.raises(InvalidExpression, match="no such symbol"):
        check(X * Y, {X})


def test_the_stage_that_made_a_wrong_node_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variant, "vjp", lambda seeds, wrt, settle: {s: make("softpluss", *seeds.values()) for s in wrt})
    program = parse_formulas(parse_spec("op: f\ntensors: {x: }\noutputs: {y: tanh(x)}"))
    with verifying(), pytest.raises(InvalidExpression, match=r"after differentiate: .*softpluss"):
        compile_operation(program)


def test_nothing_is_verified_unless_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from symgrad.compiler import verify

    monkeypatch.setattr(verify, "_on", False)
    verified("parse", [make("softpluss", X)])
