"""Reverse and forward mode: expressions to expressions.

A formula is a graph of tensor operations with pointwise regions between them. Within a region derivatives are
symbolic partials (so that rewriting sees the whole formula of each); between regions cotangents flow by the vjp rows of
the tensor operations. Higher orders are these functions applied again; there is no second mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import COMPARISONS, LOGICAL, ZERO, Expr, make
from symgrad.ir.traversal import topological
from symgrad.ir.truth import where
from symgrad.ops.functions import FUNCTIONS
from symgrad.ops.tensors import TENSOR_OPS, data_arguments
from symgrad.ops.tensors.reductions import OF_ROWS
from symgrad.ops.tensors.shapes import common_extent, same_shape, shape_sources
from symgrad.ops.tensors.shaping import unsqueeze


def is_tensor_op(node: Expr) -> bool:
    """Whether the node is a tensor operation rather than pointwise."""
    return node.op in TENSOR_OPS


def region_leaves(root: Expr, through: Collection[str] = ()) -> list[Expr]:
    """What a pointwise region reads: tensor symbols and results of tensor operations, in order of first use.

    Operations that it goes `through` are a part of it: what is held is a value like another.
    """
    seen: dict[Expr, None] = {}
    done: set[Expr] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node in done:
            continue
        done.add(node)
        if (is_tensor_op(node) and node.op not in through) or (node.op == "sym" and node.tensors):
            seen[node] = None
        else:
            stack.extend(reversed(node.args))
    return list(seen)


def local_partials(node: Expr) -> tuple[Expr, ...]:
    """Derivatives of one pointwise operation with respect to its arguments.

    Raises KeyError for an operation that has no row.
    """
    if node.op == "add":
        return (ex.ONE,) * len(node.args)
    if node.op == "mul":
        args = node.args  # without one of them they are as canonical as before
        others = (args[:i] + args[i + 1 :] for i in range(len(args)))
        return tuple(rest[0] if len(rest) == 1 else make("mul", *rest) for rest in others)
    if node.op == "pow":
        return _power_partials(*node.args)
    if node.op in COMPARISONS or node.op in LOGICAL:
        return (ZERO,) * len(node.args)
    partials = FUNCTIONS[node.op].partials
    assert partials is not None, node.op
    return partials(*node.args)


def _power_partials(base: Expr, exponent: Expr) -> tuple[Expr, Expr]:
    """PyTorch's conventions: an exponent 0 has gradient 0, and so has the exponent where the base is 0."""
    slope = exponent * ex.power(base, exponent - 1)
    if exponent.number is None and exponent.op != "const":
        slope = where(truth.compare("eq", exponent, 0), ZERO, slope)
    growth = ex.power(base, exponent) * _log_of_base(base)
    if base.number is None or base.number <= 0:
        at_zero = truth.logical("and", truth.compare("eq", base, 0), truth.compare("ge", exponent, 0))
        growth = where(at_zero, ZERO, growth)
    return slope, growth


def _log_of_base(base: Expr) -> Expr:
    """The logarithm; of a Python value too that may be 0, where math.log raises an error."""
    if base.number is not None or not base.is_static:
        return ZERO if base is ZERO else make("log", base)  # as if 0**x were 0 everywhere: no pole, and no NaN
    return where(truth.compare("gt", base, 0), make("log", base), -ex.OO)


def partials(root: Expr, leaves: Iterable[Expr]) -> dict[Expr, Expr]:
    """The symbolic partial derivatives of a pointwise region with respect to its `leaves`."""
    boundary = list(dict.fromkeys(leaves))
    stops = frozenset((*boundary, *region_leaves(root)))
    order = topological(root, leaves=stops)
    below: dict[Expr, frozenset[Expr]] = {}
    for node in order:
        if node in stops:
            below[node] = frozenset({node})
        else:
            below[node] = frozenset().union(*(below[a] for a in node.args))
    result: dict[Expr, Expr] = {}
    for leaf in boundary:
        derivative: dict[Expr, Expr] = {leaf: ex.ONE}
        for node in order:
            if node is not leaf and leaf in below[node]:
                derivative[node] = _chain(node, derivative)
        result[leaf] = derivative.get(root, ZERO)
    return result


def _chain(node: Expr, derivative: Mapping[Expr, Expr]) -> Expr:
    """The chain rule at one node; arguments missing from `derivative` are constant."""
    if node.op == "where":
        condition, then, otherwise = node.args
        return where(condition, derivative.get(then, ZERO), derivative.get(otherwise, ZERO))
    varying = [i for i, a in enumerate(node.args) if derivative.get(a, ZERO) is not ZERO]
    if not varying:
        return ZERO
    local = local_partials(node)
    return ex.add(*(_product(local[i], derivative[node.args[i]]) for i in varying))


def _product(left: Expr, right: Expr) -> Expr:
    """A product that enters branches with constant values: where(c, 0, 1) * f is where(c, 0, f)."""
    if left is ex.ONE or right is ex.ONE:
        return right if left is ex.ONE else left
    for branch, factor in ((left, right), (right, left)):
        if _has_constant_branch(branch):
            condition, then, otherwise = branch.args
            return where(condition, _product(then, factor), _product(otherwise, factor))
    return left * right


def _has_constant_branch(node: Expr) -> bool:
    if node.op != "where":
        return False
    return any(b.number is not None or _has_constant_branch(b) for b in node.args[1:])


Settle = Callable[[Expr], Expr]
"""Chooses the form in which a partial derivative is written."""


def as_derived(partial: Expr) -> Expr:
    """The partial as the chain rule gives it."""
    return partial


def vjp(outputs: Mapping[Expr, Expr], wrt: Iterable[Expr], settle: Settle = as_derived) -> dict[Expr, Expr]:
    """Vector-Jacobian product: cotangents of `wrt` from cotangents of `outputs` (output -> cotangent).

    A cotangent has the shape of its value: contributions of broadcast values are reduced by `sum_to` nodes.
    Values that nothing depends on differentiably are absent from the result.
    """
    wanted = list(wrt)
    order = [n for n in topological(*outputs) if is_tensor_op(n)]
    relevant = _depends_on(outputs, frozenset(wanted))
    pending: dict[Expr, dict[frozenset[Expr], list[Expr]]] = {}
    arrived: dict[Expr, list[Expr]] = {}  # cotangents of the roots of regions, until all have come
    roots: dict[Expr, list[Expr]] = {}  # of the regions that read a value

    def arrive(root: Expr, cotangent: Expr) -> None:
        if root not in arrived:
            for leaf in region_leaves(root):
                roots.setdefault(leaf, []).append(root)
        arrived.setdefault(root, []).append(cotangent)

    def send(root: Expr) -> None:
        leaves = [leaf for leaf in region_leaves(root) if leaf in relevant]
        cotangent = _total(arrived.pop(root, []))
        if cotangent is ZERO:
            return
        sources = shape_sources(root)
        for leaf, partial in partials(root, leaves).items():
            slope = ZERO if partial is ZERO else settle(partial)
            if slope is not ZERO:
                term = _product(slope, _spread(cotangent, slope))
                pending.setdefault(leaf, {}).setdefault(sources, []).append(term)

    def collect(value: Expr) -> Expr | None:
        for root in roots.pop(value, ()):
            send(root)
        groups: list[tuple[frozenset[Expr], list[Expr]]] = []  # of one shape each, whose terms may cancel
        for sources, terms in pending.pop(value, {}).items():
            alike = next((own for known, own in groups if common_extent(known) == common_extent(sources)), None)
            if alike is None:
                groups.append((sources, list(terms)))
            else:
                alike += terms
        if not groups:
            return None
        return ex.add(*(sum_to(_total(terms), value, sources) for sources, terms in groups))

    for output, cotangent in outputs.items():
        arrive(output, cotangent)
    for node in reversed(order):
        if node in relevant and (total := collect(node)) is not None:
            rule = TENSOR_OPS[node.op].vjp
            assert rule is not None, node.op
            for operand, pulled in zip(node.args, rule(node, total), strict=True):
                if pulled is not None and operand in relevant:
                    arrive(operand, pulled)
    return {value: total for value in wanted if (total := collect(value)) is not None}


def _spread(cotangent: Expr, slope: Expr) -> Expr:
    """The cotangent before it is expanded to a shape that the slope has anyway."""
    if cotangent.op == "expand" and shape_sources(cotangent) <= shape_sources(slope):
        return cotangent.args[0]
    return cotangent


def _total(terms: list[Expr]) -> Expr:
    """The sum of terms, none of them expanded to a shape that another has anyway."""
    whole = frozenset().union(*(shape_sources(t) for t in terms if t.op != "expand"))
    return ex.add(*(t.args[0] if t.op == "expand" and shape_sources(t) <= whole else t for t in terms))


def sum_to(value: Expr, like: Expr, sources: frozenset[Expr]) -> Expr:
    """`value`, broadcast from `sources`, summed to the shape of `like`; nothing to do for equal shapes."""
    if same_shape(sources, like):
        return value
    (source, *others) = shape_sources(like) or (None,)
    reduced = source.args[0] if source is not None and not others and source.get("keepdim") is True else None
    if source is not None and reduced is not None and same_shape(sources, reduced):
        return make("sum", value, dim=source["dim"], keepdim=True)
    of, to = common_extent(sources), common_extent(shape_sources(like))
    missing = len(of.dims) - len(to.dims)
    if not to.dims or missing < 0 or of.lead != to.lead or (missing and not of.exact):
        return make("sum_to", value, like)
    if any(d not in (1, wide) for d, wide in zip(to.dims, of.dims[missing:], strict=True)):
        return make("sum_to", value, like)  # a size without a name may turn out to be 1
    ones = [k - len(to.dims) for k, d in enumerate(to.dims) if d == 1 and of.dims[k + missing] != 1]
    if not missing:
        return make("sum", value, dim=_one(ones), keepdim=True)
    total = make("sum", value, dim=_one([*range(missing), *(k + len(of.dims) for k in ones)]), keepdim=False)
    return unsqueeze(total, *ones) if ones else total


def _one(dims: list[int]) -> int | tuple[int, ...]:
    return dims[0] if len(dims) == 1 else tuple(dims)


def _depends_on(roots: Iterable[Expr], wanted: frozenset[Expr]) -> frozenset[Expr]:
    found: set[Expr] = set()
    for node in topological(*roots):
        row = TENSOR_OPS.get(node.op)
        flows = row is None or row.differentiable
        if node in wanted or (flows and any(a in found for a in data_arguments(node))):
            found.add(node)
    return frozenset(found)


def jvp(outputs: Iterable[Expr], tangents: Mapping[Expr, Expr], settle: Settle = as_derived) -> dict[Expr, Expr]:
    """Jacobian-vector product: tangents of `outputs` from tangents of input symbols (input -> tangent).

    An output that does not depend on the given inputs is absent from the result.
    """
    known: dict[Expr, Expr] = dict(tangents)
    outputs = list(outputs)
    shapes = {pushed: shape_sources(value) for value, pushed in tangents.items()}

    def tangent(root: Expr) -> Expr | None:
        if root in known:
            return known[root]
        leaves = [leaf for leaf in region_leaves(root) if leaf in known]
        if not leaves:
            return None
        # The tangents with one partial up to its sign: of f(a - b) their difference. Reductions stay apart, as what is
        # multiplied by them has sums that vanish.
        parts: dict[tuple[Expr, Expr | None], list[Expr]] = {}
        for leaf, derived in partials(root, leaves).items():
            partial = settle(derived)
            is_taken_away = ex.split_coefficient(partial)[0] < 0
            key = -partial if is_taken_away else partial
            apart = leaf if leaf.op in OF_ROWS else None
            parts.setdefault((key, apart), []).append(-known[leaf] if is_taken_away else known[leaf])
        total = ex.add(*(_product(partial, ex.add(*terms)) for (partial, _), terms in parts.items()))
        return None if total is ZERO else total

    def whole(root: Expr) -> Expr | None:
        """The tangent with the shape of the value, of which it may have lost a part."""
        total = tangent(root)
        if total is None or same_shape(_with_tangents(total, shapes), root):
            return total
        return make("expand", total, root)

    for node in topological(*outputs):
        if is_tensor_op(node):
            rule = TENSOR_OPS[node.op].jvp
            read = frozenset(data_arguments(node))
            operands = tuple(whole(a) if a in read else None for a in node.args)
            if rule is not None and any(t is not None for t in operands):
                result = rule(node, operands)
                if result is not None:
                    known[node] = result
                    shapes.setdefault(result, shape_sources(node))
    return {out: t for out in outputs if (t := tangent(out)) is not None}


def _with_tangents(root: Expr, shapes: Mapping[Expr, frozenset[Expr]]) -> frozenset[Expr]:
    """The shape sources of a value that contains tangents, whose shapes are given."""
    found: set[Expr] = set()
    stack, seen = [root], {root}
    while stack:
        node = stack.pop()
        if node in shapes:
            found |= shapes[node]
        elif is_tensor_op(node) or not node.args:
            found |= shape_sources(node)
        else:
            stack += [a for a in node.args if a not in seen]
            seen.update(node.args)
    return frozenset(found)


def is_linear(root: Expr, variables: frozenset[Expr]) -> bool:
    """Whether `root` is homogeneous and linear in `variables` (a cotangent may pass through it transposed)."""
    degree: dict[Expr, int] = {}  # 0: independent, 1: linear, 2: anything else
    for node in topological(root):
        inner = [degree[a] for a in data_arguments(node)]
        if node in variables:
            degree[node] = 1
        elif not any(inner):
            degree[node] = 0
        elif node.op == "add":
            degree[node] = 1 if all(d == 1 for d in inner) else 2
        elif node.op == "mul":
            degree[node] = 1 if sum(inner) == 1 else 2
        elif node.op == "where":
            branches = zip(inner[1:], node.args[1:], strict=True)
            degree[node] = 1 if not inner[0] and all(d == 1 or a is ZERO for d, a in branches) else 2
        elif is_tensor_op(node):
            row = TENSOR_OPS[node.op]
            degree[node] = 1 if row.linear and row.differentiable and sum(inner) == 1 else 2
        else:
            degree[node] = 2
    return degree[root] == 1 or root is ZERO
