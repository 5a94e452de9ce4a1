"""Statements compute what the expressions mean, shared values once, and nothing that is not there."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from itertools import product
from typing import Any

import mpmath as mp
import pytest
import torch
from compiled import compiled_text
from derivatives import HELPERS
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_expressions import ALPHA, POINT, TENSORS, X, Y, Z, expressions, well_conditioned

from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.traversal import topological
from symgrad.lower.code import Code, code
from symgrad.lower.naming import Names
from symgrad.lower.program import Do, Return, Statement, wanted
from symgrad.lower.program import given as there
from symgrad.lower.python import lines as written
from symgrad.lower.schedule import Scope, Target
from symgrad.lower.schedule import statements as program
from symgrad.targets.constants import constant_value
from symgrad.targets.torch.printer import Printer

SETTINGS = settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)
CONDITIONS = ("wants_x", "wants_y", "wants_z")


def scope(**known: Expr) -> Scope:
    names = {s: s.name for s in POINT}
    names |= {value: name for name, value in known.items()}
    return Scope(Names([*names.values(), "torch", "math", "F", *CONDITIONS, *(f"r{i}" for i in range(9))]), names)


def statements(targets: Sequence[Target], scope: Scope, constants: dict[Expr, str], **options: Any) -> list[str]:
    def printing(names: Any, shapes: Any, dtypes: Any) -> Printer:
        return Printer(names, constants, shapes, dtypes)

    return written(program(targets, scope, printing, **options))


def run(lines: list[str], constants: dict[Expr, str], **values: Any) -> dict[str, Any]:
    space = dict(HELPERS)
    given = {s.name: torch.tensor([v], dtype=torch.float64) if s in TENSORS else v for s, v in POINT.items()}
    space |= {name: constant_value(node) for node, name in constants.items()}
    space |= {**given, **values}
    exec("\n".join(lines), space)
    assert all(float(space[s.name]) == POINT[s] for s in TENSORS), lines  # nothing given is overwritten
    return space


def appended(value: Code) -> Statement:
    return Do(code("terms.append({0})", value))


def equal(found: Any, true: Any) -> bool:
    return bool(abs(mp.mpf(float(found)) - true) <= 1e-8 * abs(true) + 1e-50)


def repeated(lines: list[str]) -> list[str]:
    """Operations on tensors that stand in the lines more than once."""
    tensors = {s.name for s in TENSORS}
    tree = ast.parse("\n".join(lines))
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            tensors |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    seen: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call | ast.BinOp | ast.Compare) and any(
            isinstance(n, ast.Name) and n.id in tensors for n in ast.walk(node)
        ):
            seen[ast.unparse(node)] = seen.get(ast.unparse(node), 0) + 1
    return [text for text, count in seen.items() if count > 1]


def roots(draw: st.DrawFn, most: int) -> list[Expr]:
    """Expressions that share parts."""
    shared = draw(expressions(*TENSORS, ALPHA))
    own = [draw(expressions(*TENSORS)) for _ in range(draw(st.integers(1, most)))]
    mixed = [draw(st.sampled_from([o, o + shared, o * shared, make("atan", shared) - o, shared])) for o in own]
    return [m for m in mixed if not m.is_static and m.op != "sym"]


@st.composite
def several(draw: st.DrawFn) -> list[Expr]:
    return roots(draw, 3)


@SETTINGS
@given(several(), st.booleans())
def test_statements_compute_the_values_each_operation_once(values: list[Expr], fused: bool) -> None:
    true = [well_conditioned(v) for v in values]
    assume(values and None not in true)
    constants: dict[Expr, str] = {}
    targets = [Target(f"r{i}", v) for i, v in enumerate(values)]
    lines = statements(targets, scope(), constants, fused=fused)
    space = run(lines, constants)
    for i, value in enumerate(true):
        assert equal(space[f"r{i}"], value), lines
    assert not repeated(lines), lines


@SETTINGS
@given(several(), st.data())
def test_under_conditions_each_wanted_value_is_there_and_no_other(values: list[Expr], data: st.DataObject) -> None:
    true = [well_conditioned(v) for v in values]
    assume(values and None not in true)
    wants = [data.draw(st.sampled_from([(), *((c,) for c in CONDITIONS)])) for _ in values]
    constants: dict[Expr, str] = {}
    targets = [
        Target(f"r{i}", v, tuple((wanted(c),) for c in want))
        for i, (v, want) in enumerate(zip(values, wants, strict=True))
    ]
    fused = data.draw(st.booleans())
    lines = statements(targets, scope(), constants, fused=fused)
    for held in product([True, False], repeat=3):
        holds = dict(zip(CONDITIONS, held, strict=True))
        space = run(lines, constants, **holds)
        for i, (value, want) in enumerate(zip(true, wants, strict=True)):
            if all(holds[c] for c in want):
                assert equal(space[f"r{i}"], value), lines
            else:
                assert f"r{i}" not in space


@SETTINGS
@given(several(), st.data())
def test_what_is_known_is_not_computed_again(values: list[Expr], data: st.DataObject) -> None:
    true = [well_conditioned(v) for v in values]
    assume(values and None not in true)
    inner = [n for v in values for n in topological(v) if n.args and not n.is_static and not n.is_boolean]
    assume(inner)
    saved = data.draw(st.sampled_from(inner))
    constants: dict[Expr, str] = {}
    lines = statements([Target(f"r{i}", v) for i, v in enumerate(values)], scope(saved_value=saved), constants)
    (exact,) = (well_conditioned(saved),)
    assume(exact is not None)
    space = run(lines, constants, saved_value=torch.tensor([float(exact)], dtype=torch.float64))
    for i, value in enumerate(true):
        assert abs(mp.mpf(float(space[f"r{i}"])) - value) <= 1e-5 * abs(value) + 1e-50, lines
    for i, value in enumerate(values):
        if value is saved:
            assert f"r{i} = saved_value" in lines


def test_the_tangent_of_an_argument_without_one_is_never_touched() -> None:
    tangents = [symbol(f"tangent_{n}", "tangent") for n in "xyz"]
    pushed = [t * make("cos", X * Y) * (X + Z) for t in tangents]
    names = scope()
    names.known.update({t: t.name for t in tangents})
    targets = [Target("terms", value, ((there(t.name),),), appended) for t, value in zip(tangents, pushed, strict=True)]
    lines = statements(targets, names, {}, fused=True)
    for present in product([True, False], repeat=3):
        values = {
            t.name: torch.ones(1, dtype=torch.float64) if p else None for t, p in zip(tangents, present, strict=True)
        }
        space = run(lines, {}, terms=[], **values)
        assert len(space["terms"]) == sum(present)
    assert sum("torch.cos" in line for line in lines) == 1


def test_what_every_target_needs_is_computed_without_a_condition() -> None:
    """Some argument of a jvp has a tangent: what reads none of them needs no test."""
    tangents = [symbol(f"tangent_{n}", "tangent") for n in "xy"]
    names = scope()
    names.known.update({t: t.name for t in tangents})
    targets = [Target("terms", t * make("cos", X * Y), ((there(t.name),),), appended) for t in tangents]
    assert statements(targets, names, {})[0] == "cos = torch.cos(x * y)"


def test_values_under_one_condition_share_one_if() -> None:
    shared = make("exp", X) + Y
    targets = [
        Target("r0", shared * shared * Z, ((wanted("wants_x"),),)),
        Target("r1", make("sin", X * Z) + make("cos", X * Z), ((wanted("wants_x"),),)),
        Target("r2", make("tanh", Y), ((wanted("wants_y"),),)),
    ]
    lines = statements(targets, scope(), {})
    assert [line for line in lines if line.startswith("if ")] == ["if wants_x:", "if wants_y:"]


def test_what_several_targets_need_comes_before_what_one_of_them_needs() -> None:
    """A condition that ends and comes again would part what belongs together."""
    inner, other = make("cos", X), make("sin", Y)
    first = make("exp", other) * other + make("exp", inner) * inner
    targets = [
        Target("r0", first, ((wanted("wants_x"),),)),
        Target("r1", inner * Z + inner, ((wanted("wants_y"),),)),
        Target("r2", Z, ((wanted("wants_z"),),)),
    ]
    tests = [line for line in statements(targets, scope(), {}) if line.startswith("if ")]
    assert tests == ["if wants_x or wants_y:", "if wants_x:", "if wants_y:", "if wants_z:"]


def test_a_value_for_all_conditions_is_computed_before_them() -> None:
    shared = make("exp", X * Y)
    targets = [Target("r0", shared * X, ((wanted("wants_x"),),)), Target("r1", shared * Y, ((wanted("wants_y"),),))]
    lines = statements(targets, scope(), {})
    assert "torch.exp" in lines[0]
    assert not lines[0].startswith((" ", "if"))
    wide = [*targets, Target("r2", Z + 1, ((wanted("wants_z"),),))]
    assert statements(wide, scope(), {})[0] == "if wants_x or wants_y:"


def test_scalars_are_written_where_they_are_used() -> None:
    factor = 1 - ALPHA * ALPHA
    lines = statements([Target("r0", factor * X), Target("r1", factor * Y)], scope(), {})
    assert len(lines) == 2


def test_a_long_formula_is_broken_into_named_parts() -> None:
    root: Expr = X
    for k in range(2, 30):
        root = make("sin", root * Y + k) * make("cos", Z + k)
    lines = statements([Target("r0", root)], scope(), {})
    assert max(map(len, lines)) < 240
    true = well_conditioned(root)
    assert equal(run(lines, {})["r0"], true)


@pytest.mark.parametrize("name", ["product", "total", "exp_x", "sin", "x2", "r0"])
def test_temporaries_keep_off_taken_names(name: str) -> None:
    root = make("exp", X) * make("exp", X) + make("sin", X * Y) ** 2 + X * Y + make("sin", X * Y)
    space = Scope(Names(["x", "y", name]), {X: "x", Y: "y"})
    lines = statements([Target("result", root)], space, {})
    assert not any(line.startswith(f"{name} =") for line in lines)


def test_a_target_can_return_its_value() -> None:
    lines = statements([Target("r0", X * Y, (), Return)], scope(), {})
    assert lines == ["return x * y"]


def test_results_of_one_operation_are_computed_together() -> None:
    values, indices = (make(op, X, dim=-1) for op in ("sort_values", "sort_indices"))
    both = statements([Target("r1", indices), Target("r2", values)], scope(), {})
    assert both == ["r2, r1 = torch.sort(x)"]
    inside = statements([Target("r1", values * Y), Target("r2", indices)], scope(), {})
    assert sum("torch.sort(" in line for line in inside) == 1
    alone = statements([Target("r1", values)], scope(), {})
    assert alone == ["r1 = torch.sort(x).values"]


def test_a_number_takes_its_dtype_from_what_is_computed_already() -> None:
    lines = statements([Target("r1", make("hypot", X * Y, ex.ONE))], scope(), {})
    assert lines == ["x_y = x * y", "r1 = torch.hypot(x_y, x_y.new_full((), 1))"]
    lines = statements([Target("r1", make("hypot", ex.num(2) * X, ex.ONE))], scope(), {})
    assert lines == ["r1 = torch.hypot(2 * x, x.new_full((), 1))"]


def test_transposed_tensors_need_no_name() -> None:
    turned = make("T", X)
    lines = statements([Target("r1", make("matmul", Y, turned)), Target("r2", make("matmul", Z, turned))], scope(), {})
    assert lines == ["r1 = y @ x.T", "r2 = z @ x.T"]


def test_conditions_say_nothing_twice() -> None:
    shared, values = (
        make("sin", X),
        [(wanted(f"wants_{w}"), there(g)) for w, g in ("xg", "yg", "xh")],
    )
    targets = [Target(f"r{i}", shared * n, (c,)) for i, (n, c) in enumerate(zip((Y, Z), values, strict=False))]
    other = [Target("r2", Y * Z, (values[2],)), Target("r3", Z * Z, ((wanted("wants_y"), there("h")),))]
    assert "if g is not None:" in statements([*targets, *other], scope(), {})
    third = Target("r4", Z, ((wanted("wants_z"), there("h")),))
    assert "if (wants_x or wants_y) and g is not None:" in statements([*targets, third], scope(), {})
    both = [Target(f"r{i}", shared * n, (c,)) for i, (n, c) in enumerate([(Y, values[2]), (Z, other[1].cases[0])])]
    every = statements([*targets, *both, third, Target("r5", Z, ((wanted("wants_z"),),))], scope(), {})
    assert "if (wants_x or wants_y) and (g is not None or h is not None):" in every


def test_shapes_are_read_from_what_is_there() -> None:
    gap, shapes = X - Y, {X: "ctx.shapes[0]", Y: "ctx.shapes[1]"}
    there = Scope(Names([]), {X: "x", Z: "z", gap: "d"}, shapes)
    both, one = (make("count", v, dim=None) for v in (make("sin", gap), X))
    lines = statements([Target("r1", Z / both), Target("r2", Z / one)], there, {})
    assert lines == ["r1 = z / d.numel()", "r2 = z / x.numel()"]
    wider = make("mul", symbol("grad_z", "cotangent"), gap)  # as wide as what the cotangent belongs to
    hidden = Scope(Names([]), {wider: "wide", Z: "z"}, {X: "sx", Y: "sy"})
    lines = statements([Target("r1", make("expand", Z, X + Y))], hidden, {})
    assert lines == ["r1 = z.expand(rt.broadcast_shapes(sx, sy))"]


def test_a_declared_size_gives_no_name_to_what_has_it() -> None:
    text = compiled_text(
        "\nop: scaled\ntensors: {x: {shape: [..., n]}}\n"
        "outputs: {y: 'x / sqrt(mean(x**2, dim=-1, keepdim=True) + 1)'}\n"
    ).text
    assert "(x * x).mean(" in text
    assert "x_squared" not in text


def test_a_name_is_taken_over_from_what_nobody_reads_any_more_and_from_nothing_else() -> None:
    first = X + Y
    second = make("atan", first) + make("tanh", first)  # read twice below, as the first is here
    dead = statements([Target("r1", make("sin", second) * make("cos", second))], scope(), {})
    assert [line.split(" = ")[0] for line in dead] == ["total", "total", "r1"]
    live = statements([Target("r1", make("sin", second) * make("cos", second) * make("exp", first))], scope(), {})
    assert [line.split(" = ")[0] for line in live] == ["total", "total2", "r1"]
