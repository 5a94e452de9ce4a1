"""Nothing is computed on more elements than need be: factors leave sums and products, and expansions that nobody needs
are dropped.

What holds no cotangent or tangent is left alone, for it is shared with forward.
"""

from __future__ import annotations

from symgrad.accuracy.cost import is_product
from symgrad.analysis.integers import is_whole_tensor
from symgrad.analysis.sizes import elements
from symgrad.differentiate.modes import region_leaves
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import PerNode, rebuild, substitute, topological
from symgrad.ops.tensors import TENSOR_OPS, is_number
from symgrad.ops.tensors.extent import SCALAR, positions
from symgrad.ops.tensors.joins import rejoined
from symgrad.ops.tensors.products import joined_outer_products
from symgrad.ops.tensors.shapes import ShapeConflict, extent, same_shape, shape_sources
from symgrad.ops.tensors.shaping import squeeze
from symgrad.plan.products import simpler_product, without_numbers

_SUMS = frozenset({"sum", "mean"})


def hoisted(root: Expr) -> Expr:
    """The same derivative, with every node rebuilt from the bottom up."""
    mapped: dict[Expr, Expr] = {}
    order = topological(root)
    normalised = {n for n in order if n.op == "softmax"}
    for node in order:
        operands = [mapped[a] for a in node.args]
        result = rebuild(node, [_as_small(a) for a in operands] if node.op in TENSOR_OPS else operands)
        mapped[node] = _simplified(result) if result.is_differential else _by_its_name(result, normalised)
    return _as_small(mapped[root])


def _by_its_name(node: Expr, normalised: set[Expr]) -> Expr:
    """exp(log_softmax(a)) as the softmax(a) that is there, with which it may cancel."""
    if node.op == "exp" and node.args[0].op == "log_softmax":
        twin = make("softmax", *node.args[0].args, **dict(node.args[0].attrs))
        return twin if twin in normalised else node
    return node


def _simplified(node: Expr) -> Expr:
    if node.op == "sum_to" and extent(node.args[1]) == SCALAR and extent(node.args[0]) != SCALAR:
        simpler = _without_factors(make("sum", node.args[0], dim=None, keepdim=False))
        shared = all(not f.is_differential for f in simpler.factors if f.op == "sum")  # the sum is one of forward
        return simpler if shared or node.args[0].op == "expand" else node
    if node.op in _SUMS:
        return _without_factors(node)
    if node.op == "unsqueeze" and node.args[0].op == "expand" and extent(node.args[0].args[0]) == SCALAR:
        value, like = node.args[0].args
        return make("expand", value, make("unsqueeze", like, **dict(node.attrs)))
    if node.op == "squeeze":
        return _without_kept_dimensions(node)
    if is_product(node):
        return without_numbers(node)
    if node.op == "add":
        node = _with_one_factor(joined_outer_products(rejoined(node)))
    if node.op == "mul":
        node = simpler_product(node)
    if node.op == "where":
        node = _of_small_choice(node)
    return node if node.op in TENSOR_OPS or not node.args else _without_expansions(node)


def _without_kept_dimensions(node: Expr) -> Expr:
    """sum(a, dim) for what keeps the dimensions of a sum and then drops just these."""
    (operand,) = node.args
    dim = operand.get("dim")
    if operand.get("keepdim") is not True or node["dim"] != (dim if isinstance(dim, tuple) else (dim,)):
        return node
    return make(operand.op, *operand.args, **{**dict(operand.attrs), "keepdim": False})


# ------------------------------------------------------------------------------------------------ choices
def _of_small_choice(choice: Expr) -> Expr:
    """a * where(c, b, d) for where(c, a * b, a * d), where c has fewer elements than a.

    Only what is a number wherever the tensors are leaves a branch: in one that is not taken it is multiplied by 0.
    """
    condition, *branches = choice.args
    live = [frozenset(b.factors) for b in branches if b is not ex.ZERO]
    if condition.is_static or not live:
        return choice
    common = [f for f in live[0].intersection(*live[1:]) if _is_safe(f) and _is_larger(f, condition)]
    if not common:
        return choice
    rest = [b if b is ex.ZERO else ex.mul(*(f for f in b.factors if f not in common)) for b in branches]
    if all(r.is_static for r in rest):
        return choice  # a mask is what keeps out what is no number
    result = ex.mul(*common, rebuild(choice, [condition, *rest]))
    return result if same_shape(shape_sources(result), choice) else choice


def _is_larger(factor: Expr, condition: Expr) -> bool:
    """Whether it is known that a factor has more elements than a condition, or this one alone."""
    of, own = extent(condition), extent(factor)
    if not of.exact or _is_open(condition):
        return False
    return (own != SCALAR and of == SCALAR) or (own.exact and elements(factor) > elements(condition))


def _is_safe(factor: Expr) -> bool:
    """Whether a factor is a number wherever the tensors that it is made of are moderate numbers."""
    if factor.op in _BOUNDED:
        return all(n.is_static or not n.args or _is_arithmetic(n) for n in topological(*factor.args))
    return factor.is_static or not factor.args or (factor.op in ("add", "expand") and all(map(_is_safe, factor.args)))


_BOUNDED = frozenset({"sign", "tanh", "sigmoid"})
_ARITHMETIC = frozenset({"add", "mul", "boundary", "abs", "minimum", "maximum", *_SUMS})


def _is_arithmetic(node: Expr) -> bool:
    n = node.args[1].number if node.op == "pow" else None
    return node.op in _ARITHMETIC or (n is not None and n > 0 and n.denominator == 1)


# ------------------------------------------------------------------------------------------------ sums
def _without_factors(node: Expr) -> Expr:
    """c * sum(a) for sum(c * a), where c has one element along what is summed."""
    (operand,) = node.args
    if _is_centred(operand, node):
        return ex.ZERO
    if operand.op == "expand":
        return _of_expanded(node)
    if node.op == "sum" and _is_put(operand, node):
        return _sum_of_put(operand, node)
    if operand.op == "add":
        simpler = _of_simpler_sum(node)
        return simpler if simpler is not node or node.op == "mean" else _without_terms(node)
    if operand.op == "where" and (masked := _masked_after(node)) is not None:
        return masked
    if operand.op == "where" and (chosen := _chosen_constant(operand, node)) is not None:
        rest = _of_rest(node, rebuild(operand, _with_one(operand)))
        return node if rest is None else ex.mul(chosen, rest)
    if operand.op != "mul":
        return node
    outside = [f for f in operand.args if _is_constant(f, node)]
    if not outside or len(outside) == len(operand.args):
        return node
    inside = ex.mul(*(f for f in operand.args if f not in outside))
    if TENSOR_OPS[node.op].floats and is_whole_tensor(inside):
        return node
    rest = _of_rest(node, inside)
    return node if rest is None else ex.mul(*outside, _simplified(rest))


def _of_expanded(node: Expr) -> Expr:
    """n * sum(a) for the sum of a that is expanded to n times as many elements, where all of them are added up, or just
    these: one after the other they would be rounded n times."""
    (value, like) = node.args[0].args
    own, of = extent(value), extent(like)
    if not (own.exact and of.exact and of.dims) or node["keepdim"] is True or _is_open(value):
        return node
    places = range(-len(of.dims), 0) if node["dim"] is None else positions(node["dim"], of)
    if places is None:
        return node
    spread = tuple(p for p in places if -p > len(own.dims) or own.dims[p] == 1 != of.dims[p])
    if len(places) == len(of.dims):
        whole = make(node.op, value, **{**dict(node.attrs), "dim": None}) if own.dims else value
    elif len(spread) == len(places) and own.dims == tuple(
        d for k, d in enumerate(of.dims, -len(of.dims)) if k not in spread
    ):
        whole = value
    else:
        return node
    return whole if node.op == "mean" or not spread else ex.mul(make("count", like, dim=spread), _simplified(whole))


def _of_rest(node: Expr, rest: Expr) -> Expr | None:
    """The reduction of what is left of its operand, which may have fewer dimensions: b of b[:, None] * c[:, :, 1:].

    None where these do not have all that are reduced, or nothing tells whether they do.
    """
    (operand,) = node.args
    of, own, dim = extent(operand), extent(rest), node["dim"]
    if dim is None or (of.exact and own.exact and len(own.dims) == len(of.dims)):
        return make(node.op, rest, **dict(node.attrs))
    places = positions(dim, of) if of.exact and own.exact else None
    if places is None:
        from_the_end = all(isinstance(d, int) and d < 0 for d in (dim if isinstance(dim, tuple) else (dim,)))
        alike = from_the_end or same_shape(shape_sources(rest), operand)
        return make(node.op, rest, **dict(node.attrs)) if alike else None
    if any(-p > len(own.dims) for p in places):
        return None
    return make(node.op, rest, **{**dict(node.attrs), "dim": places if isinstance(dim, tuple) else places[0]})


def _masked_after(node: Expr) -> Expr | None:
    """where(c, sum(a), 0) for sum(where(c, a, 0)), where c has one element along what is summed."""
    (choice,) = node.args
    condition, *branches = choice.args
    live = [b for b in branches if b is not ex.ZERO]
    told = not condition.is_differential and _is_constant(condition, node)
    if len(live) != 1 or not told or not same_shape(shape_sources(live[0]), choice):
        return None
    reduced = _simplified(make(node.op, live[0], **dict(node.attrs)))
    return rebuild(choice, [condition, *(b if b is ex.ZERO else reduced for b in branches)])


def _chosen_constant(choice: Expr, over: Expr) -> Expr | None:
    """What is chosen beside 0, where it is no number itself and has one element along what is summed."""
    _, *branches = choice.args
    chosen = [b for b in branches if b is not ex.ZERO]
    whole = len(chosen) == 1 and not choice.args[0].is_static and not choice.args[0].is_differential
    return chosen[0] if whole and not chosen[0].is_static and _is_constant(chosen[0], over) else None


def _with_one(choice: Expr) -> list[Expr]:
    return [choice.args[0], *(b if b is ex.ZERO else ex.ONE for b in choice.args[1:])]


def _with_one_factor(total: Expr) -> Expr:
    """c * (a - sum(a)) for c * a - c * sum(a): where a is all that there is, both are equal, and so are not products
    that are rounded one by one."""
    if total.op != "add" or not any(f.op in _SUMS for t in total.args for f in t.factors):
        return total
    first, *others = (frozenset(t.factors) for t in total.args)
    common = [f for f in first.intersection(*others) if f.is_differential and f.number is None]
    if not common:
        return total
    rest = ex.add(*(ex.mul(*(f for f in t.factors if f not in common)) for t in total.args))
    return ex.mul(*common, rest)


def _of_simpler_sum(node: Expr) -> Expr:
    """c * sum(a - b) for sum(c * a - c * b), and sum(a) for sum(a + c * (b - mean(b))), where c is a number, or has one
    element along what is summed."""
    (operand,) = node.args
    vanishing = [t for t in operand.args if _vanishes(ex.split_coefficient(t)[1], node)]
    left = ex.add(*(t for t in operand.args if t not in vanishing))
    if vanishing and not left.is_static and same_shape(shape_sources(left), operand):
        return _simplified(make(node.op, left, **dict(node.attrs)))
    factors = {abs(ex.split_coefficient(t)[0]) for t in operand.args}
    inside = ex.add(*(ex.mul(1 / min(factors), t) for t in operand.args))
    floats = TENSOR_OPS[node.op].floats and is_whole_tensor(inside)
    if len(factors) > 1 or factors == {1} or inside.op != "add" or floats:
        return node
    return ex.mul(*factors, _simplified(make(node.op, inside, **dict(node.attrs))))


def _vanishes(term: Expr, over: Expr) -> bool:
    """Whether the sum of a term is zero: of what is centred, times what has one element along what is summed."""
    inside = [f for f in term.factors if not _is_constant(f, over)]
    return len(inside) == 1 and _is_centred(inside[0], make(over.op, inside[0], **dict(over.attrs)))


def _without_terms(node: Expr) -> Expr:
    """n * c + sum(a) for sum(c + a), where c has one element along the n that are summed."""
    (operand,) = node.args
    put = [t for t in operand.args if _is_put(ex.split_coefficient(t)[1], node)]
    spread = ex.add(*(t for t in operand.args if t not in put))
    if put and not spread.is_static and same_shape(shape_sources(spread), operand):
        summed = (ex.split_coefficient(t) for t in put)
        rest = _simplified(make("sum", spread, **dict(node.attrs)))
        return ex.add(*(ex.mul(c, _sum_of_put(t, node)) for c, t in summed), rest)
    outside = [t for t in operand.args if not t.is_static and _is_constant(t, node)]
    inside = ex.add(*(t for t in operand.args if t not in outside))
    if not outside or inside.is_static or _is_open(operand) or not same_shape(shape_sources(inside), operand):
        return node  # of an open shape nothing tells how many elements are summed
    rest = _simplified(make("sum", inside, **dict(node.attrs)))
    # A count of the same elements cancels.
    counts = [n for n in topological(*outside) if n.op == "count" and n["dim"] == node["dim"]]
    alike = (n for n in counts if same_shape(shape_sources(n.args[0]), operand))
    count = next(alike, make("count", operand, dim=node["dim"]))
    return _without_expansions(ex.add(*(_without_expansions(ex.mul(count, term)) for term in outside), rest))


def _is_put(value: Expr, over: Expr) -> bool:
    """Whether a value is zeros along the dimension of a sum, but for what is put at some places."""
    if value.op not in ("put_along", "add_along") or not isinstance(over["dim"], int):
        return False
    of = extent(value)
    return positions(over["dim"], of) == positions(value["dim"], of) is not None


def _sum_of_put(put: Expr, over: Expr) -> Expr:
    """The sum of what was put: of one element along the dimension it is that element."""
    value, dim = put.args[0], over["dim"]
    places = positions(dim, extent(value))
    if places is None or extent(value).dims[places[0]] != 1:
        return _simplified(make("sum", value, **dict(over.attrs)))
    return value if over["keepdim"] is True else squeeze(value, *places)


def _is_centred(operand: Expr, over: Expr) -> bool:
    """Whether a value is a - mean(a) along what is summed: the sum is zero."""
    if operand.op != "add" or len(operand.args) != 2 or over["keepdim"] is not True:
        return False
    return any(-make("mean", a, dim=over["dim"], keepdim=True) in operand.args for a in operand.args)


def _is_constant(factor: Expr, over: Expr) -> bool:
    """Whether a factor has one element along the dimensions of a reduction, and fits its result."""
    if factor.is_static or (extent(factor) == SCALAR and not _is_open(factor)):
        return True
    dim = over["dim"]
    if dim is None or _is_open(factor):
        return False
    known = extent(factor)
    try:
        places = positions(dim, extent(over.args[0]))
    except ShapeConflict:
        return False
    if places is not None and known.exact:
        kept = over["keepdim"] is True  # without the reduced dimensions only those behind them fit
        return all(len(known.dims) < -p or (kept and known.dims[p] == 1) for p in places)
    if over["keepdim"] is not True:
        return False
    if _is_open(factor, declared=False):
        return False
    sources = shape_sources(factor)
    return bool(sources) and all((s.get("keepdim") is True or s.op == "restore") and s["dim"] == dim for s in sources)


def _is_open(node: Expr, declared: bool = True) -> bool:
    """Whether a value has the shape of a cotangent or tangent that does not tell it, though it may be `declared`."""
    stack = [node]
    while stack:
        part = stack.pop()
        known = declared and part.get("shape") is not None and extent(part).exact
        if part.op == "sym" and part.is_differential and not known:
            return True
        if part.op not in TENSOR_OPS:
            stack += part.args
        elif (preserved := TENSOR_OPS[part.op].shape_of) is not None:
            stack.append(part.args[preserved])
    return False


# ------------------------------------------------------------------------------------------------ expansions
def _as_small(root: Expr) -> Expr:
    """A whole pointwise region of a derivative, in which nothing is expanded to a shape that the region has anyway."""
    if not root.is_differential or root.op in TENSOR_OPS or _branches(root):
        return root
    for spread in (leaf for leaf in region_leaves(root) if leaf.op == "expand"):
        as_they_are = {leaf: leaf for leaf in region_leaves(root)}  # what is in them is expanded for them
        smaller = substitute(root, {**as_they_are, spread: spread.args[0]})
        if same_shape(shape_sources(smaller), root):
            root = smaller
    return root


@PerNode
def _branches(node: Expr) -> bool:
    """Whether there is a choice of Python in a pointwise region."""
    if node.op in TENSOR_OPS:
        return False
    return (node.op == "where" and node.args[0].is_static) or any(map(_branches, node.args))


def _without_expansions(node: Expr) -> Expr:
    """A pointwise operation on values that are not expanded to a shape that another operand has anyway."""
    spread = [a for a in node.args if a.op == "expand"]
    if not spread or (node.op == "where" and node.args[0].is_static):
        return node
    varying = [a for a in node.args if not is_number(a)]
    if varying == spread and all(extent(a.args[0]) == SCALAR for a in spread):
        shapes = {extent(a.args[1]) for a in spread}
        if len(shapes) == 1:
            inner = rebuild(node, [a.args[0] if a in spread else a for a in node.args])
            return make("expand", inner, spread[0].args[1])
    for one in spread:
        smaller = rebuild(node, [a.args[0] if a is one else a for a in node.args])
        if same_shape(shape_sources(smaller), node):
            return _without_expansions(smaller)
    return node
