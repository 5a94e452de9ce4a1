"""What the writers of all languages share."""

from __future__ import annotations

from fractions import Fraction

import pytest

from symgrad.accuracy.machine import machine
from symgrad.ir.expr import make, num, symbol
from symgrad.lower.clike import clike
from symgrad.lower.code import source
from symgrad.lower.naming import Names
from symgrad.targets.cpp.printer import CppPrinter
from symgrad.targets.fused.writing import is_structure, name_values
from symgrad.targets.triton.printer import TritonPrinter

X, Y = symbol("x", "tensor"), symbol("y", "tensor")
NAMES = {X: "x", Y: "y"}


def named(root, own=None):
    names = dict(NAMES)
    (root,) = machine([root])
    printer = CppPrinter(names, {})
    found = name_values([root], names, Names(["exp"]), printer, own)
    return [(name, clike(value)) for name, value in found], clike(printer(root))


def test_what_is_read_twice_has_a_name_and_is_printed_by_it():
    shared = make("exp", X)
    ((name, text),), root = named(shared * make("sin", shared))
    assert text == "exp(x)" and root.count(name) == 2 and "exp(x)" not in root


def test_what_is_read_once_has_none():
    assert named(make("exp", X) + Y)[0] == []


def test_a_value_may_bring_its_own_name():
    value = make("exp", X)
    assert named(value + Y, {value: "chosen"}) == ([("chosen", "exp(x)")], "chosen + y")


@pytest.mark.parametrize("printer, text", [(CppPrinter(NAMES, {}), clike), (TritonPrinter(NAMES, {}, "x"), source)])
def test_operators_have_parentheses_only_where_they_bind_too_weakly(printer, text):
    assert text(printer(make("mul", make("add", X, Y), X))) == "(x + y) * x"
    assert text(printer(make("add", make("mul", X, Y), X))) == "x * y + x"
    assert text(printer(make("sub", X, make("sub", X, Y)))) == "x - (x - y)"


def test_a_quotient_of_numbers_is_one_operand_in_triton():
    third = num(Fraction(1, 3))
    printer = TritonPrinter(NAMES, {}, "x")
    assert source(printer(make("mul", X, third))) == "x * (1 / 3)"
    assert source(printer(make("sub", X, third))) == "x - 1 / 3"


def test_operators_and_choices_are_in_every_language_and_functions_are_not():
    assert is_structure(X + Y) and is_structure(X) and not is_structure(make("sin", X))
