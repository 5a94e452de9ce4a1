"""The minimum vertex cut: the values of fewest bytes from which all gradients can be computed.

The cut itself is that of a network, by augmenting paths (J. Edmonds, R. Karp, 1972).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from symgrad.accuracy.cost import is_product
from symgrad.analysis.sizes import Sizes, item_size
from symgrad.ir.expr import Expr, split_coefficient
from symgrad.ir.traversal import topological
from symgrad.ops.tensors import TENSOR_OPS, data_arguments, is_index
from symgrad.plan.reading import carries_data

__all__ = ["cut_before", "free_cut", "is_choice", "minimum_cut", "narrowed"]

Node = Hashable
Edges = Mapping[tuple[Node, Node], "int | None"]


def free_cut(derivatives: Iterable[Expr], outputs: Mapping[Expr, str], formulas: Iterable[Expr]) -> list[Expr]:
    """The values of fewest bytes from which derivatives can be computed, where no derivative of any value is lost.

    So it is where a framework differentiates what computes the values. Of equal cuts it is that of inputs and outputs,
    which live anyway.
    """
    return minimum_cut(derivatives, outputs, Sizes.of(formulas, narrow=True), free=True)


def minimum_cut(
    gradients: Iterable[Expr],
    outputs: Mapping[Expr, str],
    sizes: Sizes | None = None,
    *,
    masks: bool = True,
    free: bool = False,
    packed: frozenset[Expr] = frozenset(),
) -> list[Expr]:
    """The values of fewest bytes from which the gradients can be computed: a minimum vertex cut.

    Equal cuts are decided for outputs and masks, which are nearer to the gradients, against inputs. Without `masks`
    only inputs and outputs are considered, and where it is `free`, all values are; those that are `packed` are in any
    case. Products, convolutions and sorts are not repeated where that can be avoided.
    """
    gradients = list(gradients)
    sizes = sizes or Sizes.of(gradients)
    order = [n for n in topological(*gradients) if carries_data(n)]
    position = {node: index for index, node in enumerate(order)}
    edges: dict[tuple[Any, Any], int | None] = {}
    for index, node in enumerate(order):
        weight = _packed_weight(node, sizes) if node in packed else _weight(node, outputs, sizes, masks, free)
        edges[("in", index), ("out", index)] = weight
        if node.op == "sym":
            edges["source", ("in", index)] = None
        for argument in data_arguments(node):
            if argument in position:
                edges[("out", position[argument]), ("in", index)] = None
    for root in gradients:
        for top in _data_roots(root, frozenset(position)):
            edges[("out", position[top]), "sink"] = None
    products: dict[tuple[Any, Any], int | None] = {
        ("source", ("in", i)): None for i, node in enumerate(order) if is_product(node)
    }
    before = cut_before("sink", "source", edges | products)
    if before is None:  # some product has to be repeated
        before = cut_before("sink", "source", edges)
    assert before is not None, "inputs can be saved, or nothing has a gradient"
    return [node for i, node in enumerate(order) if ("in", i) in before and ("out", i) not in before]


def _data_roots(root: Expr, present: frozenset[Expr]) -> list[Expr]:
    """The largest forward values that a gradient reads: those whose users contain a cotangent."""
    if root in present:
        return [root]
    found: dict[Expr, None] = {}
    for node in topological(root, leaves=present):
        if node not in present:
            found.update(dict.fromkeys(a for a in data_arguments(node) if a in present))
    return list(found)


def _weight(node: Expr, outputs: Mapping[Expr, str], sizes: Sizes, masks: bool, free: bool) -> int | None:
    """Bytes scaled, with a small preference for what is nearer to the gradients; None where not to be saved."""
    scaled = round(sizes.bytes(node) * 1000) * 4
    if node.op == "sym":
        return scaled + 3
    if node.is_boolean or (is_choice(node) and node not in outputs):
        below = topological(*node.args, leaves=frozenset(outputs))
        repeats = not free and any(is_product(n) for n in below if n not in outputs)  # to save it
        return scaled + 1 if masks and not repeats else None
    if node in outputs and (free or split_coefficient(node)[1] is node):  # for s - x, no -x is computed
        return scaled + 2
    return scaled + 4 if free else None


def _packed_weight(node: Expr, sizes: Sizes) -> int:
    """As a byte an element, or a bit; a mask, which is exact, is preferred."""
    return round(sizes.bytes(node) / narrowed(node) * 1000) * 4 + 3


def is_choice(node: Expr) -> bool:
    """Whether a value is the indices of elements of an input or its transposed, which have no derivative to lose.

    Those of anything else may differ when they are computed again: in half precision from values that were rounded.
    """
    read = data_arguments(node)
    if not is_index(node) or len(read) != 1:
        return False
    (operand,) = read
    while operand.op in TENSOR_OPS and TENSOR_OPS[operand.op].view:
        operand = operand.args[0]
    return operand.op == "sym" and not operand.is_static


def narrowed(value: Expr) -> float:
    """How many times fewer bytes a value takes when it is packed."""
    return 8.0 if value.is_boolean else item_size(value)


def cut_before(sink: Node, source: Node, edges: Edges) -> set[Node] | None:
    """The nodes from which the sink cannot be reached any more once a minimum cut is taken out; None if there is none.

    `edges` are capacities, None where an edge cannot be cut. Of the minimum cuts it is the one nearest to the sink,
    whatever the order of the edges.
    """
    left: dict[Node, dict[Node, int | None]] = defaultdict(dict)  # what may still flow along an edge, and back
    for (start, end), capacity in edges.items():
        left[start][end] = capacity
        left[end].setdefault(start, 0)
    while True:
        before = _reached(source, left)
        if sink not in before:
            break
        path = [sink]
        while path[-1] != source:
            path.append(before[path[-1]])
        steps = list(zip(path[1:], path, strict=False))
        free = [c for start, end in steps if (c := left[start][end]) is not None]
        if not free:
            return None
        flow = min(free)
        for start, end in steps:
            for a, b, change in ((start, end, -flow), (end, start, flow)):
                own = left[a][b]
                left[a][b] = None if own is None else own + change
    against: dict[Node, dict[Node, int | None]] = defaultdict(dict)
    for start, ends in left.items():
        for end, capacity in ends.items():
            against[end][start] = capacity
    return set(left) - set(_reached(sink, against))


def _reached(start: Node, left: Mapping[Node, Mapping[Node, int | None]]) -> dict[Node, Node]:
    """The nodes that are reached where something may still flow, each with the one before it on a shortest path."""
    before: dict[Node, Node] = {start: start}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for end, capacity in left[node].items():
            if capacity != 0 and end not in before:
                before[end] = node
                queue.append(end)
    return before
