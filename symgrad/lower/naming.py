"""Names for temporaries: what a value is, never a number alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from keyword import iskeyword

from symgrad.ir.expr import Expr
from symgrad.lower.growth import BOUNDS

# How an operation is called in a name; {0} is the name of its argument where that is short.
_WORDS: Mapping[str, str] = {
    "sigmoid": "sig",
    "softplus": "soft",
    "logsigmoid": "log_sig",
    "exp": "exp",
    "expm1": "expm1",
    "log": "log",
    "log1p": "log1p",
    "tanh": "tanh",
    "sinh": "sinh",
    "cosh": "cosh",
    "sin": "sin",
    "cos": "cos",
    "narrow_sin": "sin",
    "narrow_cos": "cos",
    "narrow_tan": "tan",
    "widen": "wide",
    "double": "wide",
    "single": "rounded",
    "erf": "erf",
    "erfc": "erfc",
    "abs": "magnitude",
    "sign": "sign",
    "finite": "finite",
    "relu": "positive_part",
    "hypot": "length",
    "add": "total",
    "add_scaled": "total",
    "addcmul": "total",
    "addcmul_scaled": "total",
    "sub_scaled": "diff",
    "subcmul": "diff",
    "sub": "diff",
    "mul": "product",
    "div": "ratio",
    "neg": "neg",
    "where": "chosen",
    "masked": "chosen",
    "guarded": "guarded",
    "softmax_backward": "product",
    "log_softmax_backward": "diff",
    "maximum": "upper",
    "minimum": "lower",
    "clamp": "clamped",
    "sum": "total",
    "mean": "mean",
    "norm": "norm",
    "and": "inside",
    "or": "outside",
    "sum_to": "reduced",
    "conform": "conformed",
    "expand": "spread",
    "restore": "spread",
    "round": "rounded",
    "T": "transposed",
    "mT": "transposed",
    "amax": "largest",
    "amin": "smallest",
    "cat": "joined",
    "stack": "stacked",
    "pad": "padded",
    "slice_back": "padded",
    "slice_added": "total",
    "reshape": "reshaped",
    "gather": "picked",
    "take_along": "picked",
    "index_select": "picked",
    "put_along": "placed",
    "scan": "scanned",
    "scan_back": "scanned",
    "matmul_left": "pulled",
    "matmul_right": "pulled",
    "threshold_backward": "chosen",
    "leaky_relu": "chosen",
    "leaky_relu_backward": "chosen",
    "sigmoid_backward": "product",
    "tanh_backward": "product",
}
# Words that say how a value was made and not what it is: they are no part of another name.
VAGUE = frozenset(
    [
        *("total", "product", "ratio", "diff", "chosen", "neg", "spread", "column", "square", "cube", "root", "matmul"),
        *("joined", "stacked", "padded", "reshaped", "picked", "placed", "scanned", "pulled", "head", "tail", "part"),
        "inverse",
    ]
)
_OPPOSITES = {"and": "outside", "or": "inside"}  # what their negations are called
_COMPARED = {"gt": "above", "ge": "at_least", "lt": "below", "le": "at_most", "eq": "equal", "ne": "unequal"}


def class_name(op: str) -> str:
    """The class of an operation: SmoothL1 for smooth_l1; none that Python has another meaning for."""
    joined = "".join(part[:1].upper() + part[1:] for part in op.split("_"))
    return f"{joined}_" if iskeyword(joined) else joined


class Names:
    """Gives every value a name that nothing else in the scope has, and none of the `functions` that it may call."""

    def __init__(self, taken: Iterable[str] = (), functions: frozenset[str] = frozenset()) -> None:
        self._taken = set(taken)
        self._functions = functions

    def copy(self, taken: Iterable[str] = ()) -> Names:
        """The names for an inner scope, in which these are taken too."""
        return Names((*self._taken, *taken), self._functions)

    def reserve(self, wish: str) -> str:
        """`wish` itself, with underscores appended while it is taken."""
        while wish in self._taken or wish in self._functions:
            wish += "_"
        self._taken.add(wish)
        return wish

    def fresh(self, wish: str) -> str:
        """`wish`, with an underscore where it means something else, or with the first free number from 2."""
        wish = f"{wish}_" if iskeyword(wish) or wish in self._functions else wish
        name, i = wish, 2
        while name in self._taken:
            name, i = f"{wish}{i}", i + 1
        self._taken.add(name)
        return name

    def for_value(self, node: Expr, names: Mapping[Expr, object], lets: Mapping[Expr, str] | None = None) -> str:
        """A name for a machine value whose arguments may have names already: that of the spec, if it has one."""
        return self.fresh(self.word(node, names, lets or {}))

    def word(self, node: Expr, names: Mapping[Expr, object], lets: Mapping[Expr, str]) -> str:
        """What a value is called where that is free."""
        own = lets.get(node)
        local = {n: name for n, name in names.items() if isinstance(name, str)}
        return describe(node, local) if own is None else own.strip("_") or "value"


def describe(node: Expr, names: Mapping[Expr, str], depth: int = 2) -> str:
    """A short word for what a value is: `sig`, `exp_neg_x`, `x_squared`, `positive`."""
    if node in names:
        return names[node].strip("_") or "value"
    if node.op == "sym":
        return str(node["name"]).strip("_") or "value"
    if node.op in BOUNDS:
        return describe(node.args[0], names, depth)
    if node.op in _COMPARED:
        return _compared(node)
    if node.op == "pow":
        return _power(node, names)
    if node.op == "unsqueeze":
        return _unsqueezed(node, names)
    if node.op == "slice":
        return _joint(node.args[0], _SLICES.get((node["start"] in (None, 0), node["stop"] is None), "part"), names)
    if node.op == "chunk":
        word = _SLICES.get((node["index"] == 0, node["index"] == node["chunks"] - 1), str(node["index"]))
        return _joint(node.args[0], word, names, "part" if word.isdigit() else "")
    if node.op == "squeeze" and node.args[0].op == "slice" and node["dim"] == (node.args[0]["dim"],):
        place = node.args[0]["start"]
        return _joint(node.args[0].args[0], "last" if place < 0 else str(place), names, "element")
    if node.op == "squeeze":
        return describe(node.args[0], names, depth)
    word = _OPPOSITES.get(node.args[0].op, "other") if node.op == "not" else _WORDS.get(node.op, node.op)
    factors = [a.args[0] if a.op in ("T", "mT") else a for a in node.args]
    if node.op in ("mul", "matmul") and all(_is_short(a, names) for a in factors):
        joint = "_".join(describe(a, names, 0) for a in factors)
        words = joint.split("_")
        if len(joint) <= 12 and len(set(words)) == len(words):
            return joint
    inner = [a for a in node.args if not a.is_static]
    if depth and len(inner) == 1 and node.op not in ("mul", "add", "sub", "div", "where"):
        argument = describe(inner[0], names, depth - 1) if _is_short(inner[0], names) else ""
        if argument and len(word) + len(argument) <= 14:
            return f"{word}_{argument}"
    return word


def _is_short(node: Expr, names: Mapping[Expr, str]) -> bool:
    if node.op in ("neg", *BOUNDS):
        return _is_short(node.args[0], names)
    if node in names:
        return names[node].rstrip("0123456789") not in VAGUE or node.op == "sym"
    return node.op == "sym"


def _compared(node: Expr) -> str:
    if node.args[1].number == 0:
        word = {"gt": "positive", "ge": "nonnegative", "lt": "negative", "le": "nonpositive"}.get(node.op)
        if word is not None:
            return word
    return _COMPARED[node.op]


def _unsqueezed(node: Expr, names: Mapping[Expr, str]) -> str:
    return _joint(node.args[0], "column" if node["dim"] == (-1,) else "spread", names)


_SLICES = {(True, False): "head", (False, True): "tail"}
"""Words for slices, by whether they reach from the first element, and to the last."""


def _joint(value: Expr, word: str, names: Mapping[Expr, str], alone: str = "") -> str:
    """A word after the name of what it is said of, or alone where that is long."""
    return f"{describe(value, names, 1)}_{word}" if _is_short(value, names) else alone or word


def _power(node: Expr, names: Mapping[Expr, str]) -> str:
    n = node.args[1].number
    base = describe(node.args[0], names, 1) if _is_short(node.args[0], names) else ""
    if n == 2:
        return f"{base}_squared" if base else "square"
    if n == 3:
        return f"{base}_cubed" if base else "cube"
    if n is not None and n.denominator == 2 and n.numerator == 1:
        return f"root_{base}" if base else "root"
    if n == -1:
        return f"inverse_{base}" if base else "inverse"
    return f"{base}_power" if base else "power"
