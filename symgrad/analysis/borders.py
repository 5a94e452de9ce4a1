"""Padding with a number, which formulas hold as padding with zeros and a border of that number beside it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from symgrad.analysis.integers import is_whole_tensor
from symgrad.ir.expr import ONE, ZERO, Expr, make
from symgrad.ir.pattern import match, wild
from symgrad.ir.truth import compare
from symgrad.ops.tensors import is_number

_ones, _number = wild("ones"), wild("number")
_BORDER = make("where", compare("eq", _ones, ZERO), _number, ZERO)


def bordered(total: Expr) -> tuple[Expr, Expr] | None:
    """The padding and the number of a sum that pads with one."""
    for padded, border in permutations(total.args) if total.op == "add" and len(total.args) == 2 else ():
        if padded.op == "pad" and not is_whole_tensor(padded):
            for found in match(_BORDER, border, {}):
                ones, number = found[_ones], found[_number]
                alike = ones.op == "pad" and ones["pad"] == padded["pad"]
                inside = ones.args[0] if alike else ones
                if alike and inside.op == "expand" and inside.args[0] is ONE and is_number(number):
                    return padded, number
    return None


def inside_borders(order: Sequence[Expr]) -> set[Expr]:
    """The borders of sums that pad with a number, and what only these read: it is not computed."""
    found = {n: own[0] for n in order if (own := bordered(n)) is not None}
    of_borders = {a for total, padded in found.items() for a in total.args if a is not padded}
    hidden, read = set[Expr](), set[Expr]()
    for node in reversed(order):  # after all that read it
        if node in of_borders and node not in read:
            hidden.add(node)
            of_borders.update(node.args)
        else:
            read.update([found[node]] if node in found else node.args)
    return hidden
