"""Expressions: one object per structure, one structure per value wherever the constructors promise it."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import weakref
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath as mp
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from random_expressions import ALPHA, BETA, POINT, TENSORS, N, X, Y, Z, expressions, numbers, well_conditioned

from symgrad.accuracy.evaluate import Exact, exact
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import COMPARISONS, LOGICAL, Expr, make, symbol
from symgrad.ir.traversal import substitute, topological, transform

SETTINGS = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)
ANY = expressions(*TENSORS, ALPHA)
EXPONENTS = [ex.num(Fraction(*pair)) for pair in ((2, 1), (3, 1), (-1, 1), (-2, 1), (1, 2), (-1, 2), (3, 2), (0, 1))]


def value(root: Expr) -> Any:
    return exact([root], POINT, 300)[0]


def assert_same(found: Expr, expected: Any) -> None:
    """A finite value survives, to nearly all of 300 bits."""
    if mp.isfinite(expected):
        assert abs(value(found) - expected) <= abs(expected) * mp.mpf(2) ** -150 + mp.mpf(2) ** -250


def constructed(node: Expr) -> Expr:
    """The node once more, through its normalising constructor."""
    if node.op in COMPARISONS:
        return truth.compare(node.op, *node.args)
    if node.op in LOGICAL:
        return truth.logical(node.op, *node.args)
    build = {"add": ex.add, "mul": ex.mul, "pow": ex.power, "where": truth.where}.get(node.op)
    return build(*node.args) if build else node


# ---------------------------------------------------------------------------------------------- one form
@SETTINGS
@given(ANY)
@example((X * Y) ** ex.HALF * (X * Y) ** ex.HALF * X)
@example(ex.mul(ex.sqrt(X * Y), ex.sqrt(X * Y), X))
@example(ex.add(2 * (X + Y), -(X + Y), Z))
@example(ex.add(2 * (X + Y), -(X + Y), X))
@example(ex.sqrt(X**2) * X)
@example(ex.power(ex.sqrt(2) * X, 2) * Y)
@example(ex.mul(ex.sqrt(ex.num(2) * ex.PI), ex.sqrt(ex.num(2) * ex.PI), ex.PI, X))
def test_what_is_built_is_already_normal(root: Expr) -> None:
    for node in topological(root):
        assert constructed(node) is node, node
        if node.op in ("add", "mul"):
            assert all(a.op != node.op for a in node.args), node


@SETTINGS
@given(st.lists(ANY, min_size=2, max_size=5), st.randoms(use_true_random=False))
def test_the_order_of_operands_does_not_matter(parts: list[Expr], random: Any) -> None:
    shuffled = list(parts)
    random.shuffle(shuffled)
    assert ex.add(*shuffled) is ex.add(*parts)
    assert ex.mul(*shuffled) is ex.mul(*parts)


@SETTINGS
@given(st.lists(st.sampled_from([X, Y, Z, ALPHA, X + 1, X * Y, make("exp", X), ex.num(3), -X]), min_size=3, max_size=6))
def test_grouping_does_not_matter(parts: list[Expr]) -> None:
    for build in (ex.add, ex.mul):
        left = right = whole = build(*parts)
        left, right = parts[0], parts[-1]
        for p in parts[1:]:
            left = build(left, p)
        for p in parts[-2::-1]:
            right = build(p, right)
        assert left is whole
        assert right is whole


@pytest.mark.parametrize(
    ("built", "expected"),
    [
        (X + X, "2*x"),
        (X + Y - X, "y"),
        (X - X, "0"),
        (1 + X, "x + 1"),
        (-X + 1, "1 - x"),
        (Y * X * 2, "2*x*y"),
        (X * X * X, "x**3"),
        (X / X, "1"),
        (X * Y / X, "y"),
        (ex.power(ex.power(X, 2), 3), "x**6"),
        (ex.power(2 * X, 3), "8*x**3"),
        (ex.sqrt(X**2), "abs(x)"),
        (ex.sqrt(X**4), "x**2"),
        (ex.sqrt(ex.num(Fraction(9, 4))), "1.5"),
        (ex.sqrt(X) * ex.sqrt(X), "x"),
        (ex.ZERO * X, "0"),
        (ex.power(X, 0), "1"),
        (2 * (X + Y), "2*(x + y)"),
        (make("exp", X) * X * ALPHA, "alpha*x*exp(x)"),
    ],
)
def test_textbook_forms(built: Expr, expected: str) -> None:
    assert repr(built).replace(" * ", "*") == expected


def test_steps_that_decide_accuracy_are_not_taken() -> None:
    assert (X * (Y + Z)).op == "mul"
    assert make("exp", X) * make("exp", -X) is not ex.ONE
    assert ex.sqrt(X) ** 2 is X
    assert ex.power(ex.sqrt(X * Y), 3).op == "pow"
    assert ex.power(X**3, ex.num(Fraction(1, 3))) is not X  # negative x


def test_numbers_of_any_length_stay_bounded() -> None:
    assert ex.power(ex.num(3), 4).number == 81
    assert ex.power(ex.num(Fraction(1, 3)), 10**6).op == "pow"
    assert ex.power(ex.num(7), ex.num(Fraction(1, 3))).op == "pow"
    assert ex.num(10**5000).digest != ex.num(10**5000 + 1).digest


# ---------------------------------------------------------------------------------------------- values
@SETTINGS
@given(st.lists(st.one_of(ANY, numbers()), min_size=2, max_size=4))
def test_sums_and_products_keep_the_value(parts: list[Expr]) -> None:
    values = [value(p) for p in parts]
    assume(all(mp.isfinite(v) and abs(v) < 1e60 for v in values))
    with mp.workprec(300):
        assert_same(ex.add(*parts), sum(values[1:], values[0]))
        assert_same(ex.mul(*parts), mp.fprod(values))


@SETTINGS
@given(ANY, st.sampled_from(EXPONENTS), st.sampled_from(EXPONENTS))
def test_powers_keep_the_value(base: Expr, inner: Expr, outer: Expr) -> None:
    b = value(base)
    assume(mp.isfinite(b) and (b == 0 or 1e-30 < abs(b) < 1e30))
    with mp.workprec(300):
        p, q = (mp.mpf(n["value"].numerator) / n["value"].denominator for n in (inner, outer))
        first = mp.power(b, p) if b or p >= 0 else mp.inf
        if isinstance(first, mp.mpc) or not mp.isfinite(first):
            return
        expected = mp.power(first, q) if first or q >= 0 else mp.inf
        if not isinstance(expected, mp.mpc):
            assert_same(ex.power(ex.power(base, inner), outer), expected)


# ---------------------------------------------------------------------------------------------- identity
@SETTINGS
@given(ANY)
def test_equal_structures_are_one_object(root: Expr) -> None:
    copies: dict[Expr, Expr] = {}
    for node in topological(root):
        copies[node] = make(node.op, *(copies[a] for a in node.args), **dict(node.attrs))
    assert copies[root] is root
    assert pickle.loads(pickle.dumps(root)) is root
    distinct = {node.digest for node in topological(root)}
    assert len(distinct) == len(topological(root))


def test_attributes_and_kinds_tell_nodes_apart() -> None:
    different = [X, symbol("x", "float"), symbol("x", "tensor", (2,)), symbol("y"), ex.text("x"), ex.const("pi")]
    different += [make("sum", X, dim=0, keepdim=False), make("sum", X, dim=0, keepdim=True), make("sum", X, dim=1)]
    different += [make("sub", X, Y), make("sub", Y, X)]
    assert len({id(e) for e in different}) == len({e.digest for e in different}) == len(different)
    with pytest.raises(KeyError):
        X["dim"]
    assert different[6].get("dim") == 0
    assert X.get("dim", 5) == 5


def test_forgotten_expressions_are_freed() -> None:
    node = make("sin", symbol("forgotten_name"))
    watch = weakref.ref(node)
    del node
    gc.collect()
    assert watch() is None


def test_digests_and_order_are_the_same_in_every_process() -> None:
    program = (
        "from symgrad.ir import truth\nfrom symgrad.ir.expr import make, symbol\n{before}\n"
        "x, a = symbol('x'), symbol('a', 'float')\n"
        "e = truth.where(truth.compare('gt', x, a), make('exp', -x) * a + x**2, 1 / (1 + make('tanh', x)) + a)\n"
        "print(e.digest.hex(), e, list(e.symbols | {{make('sin', n) for n in e.symbols}}))"
    )
    seen = set()
    for seed, before in (("1", ""), ("77", "unrelated = [make('exp', symbol(n)) * symbol('a') for n in 'zax']")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(ex.__file__).parents[1])}
        command = [sys.executable, "-c", program.format(before=before)]
        seen.add(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
    assert len(seen) == 1


@SETTINGS
@given(ANY)
def test_what_a_node_knows_about_itself(root: Expr) -> None:
    order = topological(root)
    assert root.symbols == {n for n in order if n.op == "sym"}
    assert root.is_static == (not any(n.get("kind") == "tensor" for n in order))
    counted: dict[Expr, int] = {}
    for node in order:
        counted[node] = 1 + sum(counted[a] for a in node.args)
    assert root.size == counted[root]


# ---------------------------------------------------------------------------------------------- traversal
@SETTINGS
@given(ANY, ANY)
def test_arguments_come_before_users_and_each_once(left: Expr, right: Expr) -> None:
    order = topological(left, right)
    place = {node: i for i, node in enumerate(order)}
    assert len(place) == len(order)
    assert all(place[a] < place[node] for node in order for a in node.args)
    assert {left, right} <= set(order)


def test_leaves_are_not_entered() -> None:
    inner = make("exp", X)
    root = inner * Y + inner
    assert X in topological(root)
    assert X not in topological(root, leaves=frozenset({inner}))
    assert topological(inner, leaves=frozenset({inner})) == [inner]


def test_deep_and_shared_towers_take_no_recursion() -> None:
    chain: Expr = X
    shared: Expr = X
    for i in range(3000):
        chain = make("sin", chain)
        shared = make("hypot", shared, shared) if i < 200 else shared
    assert len(topological(chain)) == 3001
    assert len(topological(shared)) == 201
    assert shared.size == 1 << 40
    assert substitute(chain, {X: Y}).symbols == {Y}


@SETTINGS
@given(ANY, ANY)
def test_substituting_is_evaluating_elsewhere(root: Expr, argument: Expr) -> None:
    here = well_conditioned(argument)
    assume(here is not None)
    moved = {**POINT, X: value(argument)}
    expected = Exact([moved], 300)(root)[0]
    placed = substitute(root, {X: argument})
    assume(well_conditioned(placed) is not None and mp.isfinite(expected))
    assert abs(value(placed) - expected) <= mp.mpf(10) ** -9 * abs(expected) + mp.mpf(10) ** -50


def test_substitution_is_simultaneous_and_of_whole_expressions() -> None:
    assert substitute(X - 2 * Y, {X: Y, Y: X}) is Y - 2 * X
    inner = make("exp", X)
    assert substitute(inner + X, {inner: Z}) is Z + X
    assert substitute(inner + X, {inner: inner * Y, X: Z}) is inner * Y + Z
    assert substitute(X + Y, {}) is X + Y
    root = X * ALPHA + BETA**N
    assert substitute(root, {ALPHA: ex.ZERO}) is BETA**N
    assert transform(inner * Y, lambda n: Z if n is inner else n) is Y * Z


@pytest.mark.parametrize(
    ("op", "relation", "kept"), [("and", "lt", 1), ("and", "ge", 2), ("or", "le", 2), ("or", "gt", 1)]
)
def test_of_two_bounds_on_one_value_that_is_kept_which_decides(op: str, relation: str, kept: int) -> None:
    one, two = truth.compare(relation, X, 1), truth.compare(relation, X, 2)
    for bounds in ((one, two), (two, one)):
        assert truth.logical(op, *bounds) is truth.compare(relation, X, kept)
    both = truth.logical(op, one, truth.compare("eq", X, 3), truth.compare(relation, Y, 5))
    assert len(both.args) == 3
