"""Einstein summation: its derivatives are Einstein summations of the same letters in another order."""

from __future__ import annotations

import re
from collections.abc import Sequence

from symgrad.ir.expr import Expr, add, make
from symgrad.ops.tensors.extent import Dim, Extent, ShapeConflict, broadcast, extent, merged
from symgrad.ops.tensors.row import Attribute, TensorOp
from symgrad.ops.tensors.shaping import conform, sum_to

_SUBSCRIPT = re.compile(r"(?:\.\.\.)?[A-Za-z]*")


def parts(equation: str) -> tuple[list[str], str]:
    """The subscripts of the operands and of the result."""
    inputs, _, output = equation.partition("->")
    return inputs.split(","), output


def contracts_nothing(node: Expr) -> bool:
    """Whether a product is an Einstein sum without a sum: torch multiplies then, and operands may differ in dtype."""
    terms, output = parts(node["equation"]) if node.op == "einsum" else (["a"], "")
    return set("".join(terms)) <= set(output)


def canonical(equation: str, operands: int) -> str:
    """The equation without blanks and with its result written out. Raises ValueError with what is wrong with it."""
    text = equation.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != operands:
        raise ValueError(f"einsum: {equation!r} is for {len(terms)} operands, and there are {operands}")
    for term in [*terms, output]:
        if not _SUBSCRIPT.fullmatch(term):
            raise ValueError(f"einsum: {term!r} is no subscript: letters, perhaps after '...'")
    repeated = sorted(c for c in set(output) - {"."} if output.count(c) > 1)
    if repeated:
        raise ValueError(f"einsum: the result repeats {repeated[0]!r}")
    known = "".join(terms)
    if not arrow:
        output = "..." * ("..." in known) + "".join(sorted(c for c in set(known) - {"."} if known.count(c) == 1))
    missing = [c for c in output if c not in known]
    if missing:
        raise ValueError(f"einsum: {missing[0]!r} of the result is in no operand")
    if "..." in known and "..." not in output:
        raise ValueError("einsum: the result lacks the '...' of the operands")
    return f"{','.join(terms)}->{output}"


def einsum(*operands: Expr, equation: str) -> Expr:
    """The sum of products. Raises ValueError for an equation that does not fit.

    Diagonals are taken before, and a letter that only one operand has, and not the result, is summed over before.
    """
    terms, output = parts(canonical(equation, len(operands)))
    values = list(operands)
    for k, term in enumerate(terms):
        _sizes(term, extent(operands[k]))  # before the sums, which would hide that the ranks differ
        term, values[k] = _without_repetitions(term, operands[k])
        terms[k] = term
        around = "".join([output, *terms[:k], *terms[k + 1 :]])
        alone = [c for c in term if c not in around]
        if alone:
            letters = term.replace("...", "")
            places = tuple(letters.index(c) - len(letters) for c in alone)
            values[k] = make("sum", values[k], dim=places, keepdim=False)
            terms[k] = "".join(c for c in term if c not in alone)
    return _einsum(terms, output, values)


def _without_repetitions(term: str, operand: Expr) -> tuple[str, Expr]:
    """A subscript in which each letter stands once, and the diagonals that it is of."""
    while repeated := [c for c in term if c != "." and term.count(c) > 1]:
        letter = repeated[0]
        first, second = term.index(letter) - len(term), term.rindex(letter) - len(term)
        operand = make("diagonal", operand, dim1=first, dim2=second)
        term = term[:first] + term[first + 1 : second] + (term[second:][1:] + letter)
    return term, operand


def _einsum(terms: Sequence[str], output: str, operands: Sequence[Expr]) -> Expr:
    if len(terms) == 1 and terms[0] == output:
        return operands[0]
    return make("einsum", *operands, equation=f"{','.join(terms)}->{output}")


def _vjp(node: Expr, g: Expr) -> tuple[Expr, ...]:
    """The cotangent of each operand: that of the result times the other operands."""
    terms, output = parts(node["equation"])
    found = []
    for k, x in enumerate(node.args):
        others, values = [output, *terms[:k], *terms[k + 1 :]], [g, *node.args[:k], *node.args[k + 1 :]]
        wanted = terms[k]
        if "..." in output and "..." not in wanted:  # to be summed over
            wanted = f"...{wanted}"
        grad, spread = _einsum(others, wanted, values), _broadcast(k, terms, node.args)
        if any(c not in output for c in spread - {"..."}):  # not in the cotangent, and perhaps of size 1 in the others
            found.append(conform(grad, x))
        else:
            found.append(sum_to(grad, x) if spread else grad)
    return tuple(found)


def _broadcast(k: int, terms: Sequence[str], operands: Sequence[Expr]) -> frozenset[str]:
    """The letters, or `...`, along which an operand may be broadcast: where sizes of 1 cannot be ruled out."""
    own = {c for c in terms[k] if c != "."}
    try:
        sizes = [_sizes(t, extent(x)) for t, x in zip(terms, operands, strict=True)]
    except ShapeConflict:
        return frozenset(own | {"..."})
    found = {
        c
        for c in own
        if c not in sizes[k] or any(s.get(c) != sizes[k][c] for t, s in zip(terms, sizes, strict=True) if c in t)
    }
    if any("..." in t for t in terms):
        lead = sizes[k].get("...")
        if lead is None or any(s.get("...", lead) != lead for s in sizes):
            found.add("...")
    return frozenset(found)


def _sizes(term: str, of: Extent) -> dict[str, object]:
    """What is known of the sizes of a subscript's letters. Raises ShapeConflict where the rank does not fit."""
    letters = term.replace("...", "")
    if of.exact and (len(of.dims) < len(letters) or ("..." not in term and len(of.dims) > len(letters))):
        raise ShapeConflict(f"einsum: the subscript {term!r} does not fit {of}")
    found: dict[str, object] = {}
    for i in range(1, min(len(letters), len(of.dims)) + 1):
        found[letters[-i]] = of.dims[-i]
    if "..." in term and len(of.dims) >= len(letters):
        found["..."] = Extent(of.dims[: len(of.dims) - len(letters)], of.lead)
    return found


def _extent(node: Expr, operands: tuple[Extent, ...]) -> Extent:
    terms, output = parts(node["equation"])
    known = [_sizes(t, of) for t, of in zip(terms, operands, strict=True)]
    merged_sizes: dict[str, Dim] = {}
    for letter in {c for c in "".join(terms) if c != "."}:
        sizes = [s[letter] for s in known if letter in s]
        complete = len(sizes) == sum(letter in t for t in terms)
        size: Dim = 1 if complete else ("size", node, letter)
        for found in sizes:
            assert isinstance(found, int | str | tuple)
            try:
                size = merged(size, found)
            except ShapeConflict as error:
                raise ShapeConflict(f"einsum: the dimensions of {letter!r} differ: {error}") from None
        merged_sizes[letter] = size
    dims = tuple(merged_sizes[c] for c in output if c != ".")
    if "..." not in output:
        return Extent(dims)
    batches = [s.get("...") for t, s in zip(terms, known, strict=True) if "..." in t]
    exact = [b for b in batches if isinstance(b, Extent)]
    if len(exact) < len(batches):
        return Extent(dims, frozenset({node}))
    batch = broadcast(exact)
    return Extent((*batch.dims, *dims), batch.lead)


def _jvp(node: Expr, t: tuple[Expr | None, ...]) -> Expr | None:
    args = node.args
    terms = [
        make("einsum", *args[:k], tangent, *args[k + 1 :], equation=node["equation"])
        for k, tangent in enumerate(t)
        if tangent is not None
    ]
    return add(*terms) if terms else None


ROW = TensorOp(
    "einsum",
    operands=("operands",),
    attributes=(Attribute("equation", "text", required=True),),
    vjp=_vjp,
    jvp=_jvp,
    extent=_extent,
    variadic=True,
    linear=True,
    cost=100.0,
    recompute=False,
    saves="o",
    inner_view=True,
    definition=einsum,
)
