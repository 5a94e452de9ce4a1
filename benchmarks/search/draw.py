"""Formulas drawn at random from the tables of functions and tensor operations."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cached_property

from symgrad.ops.functions import FUNCTIONS
from symgrad.spec import Spec, parse_spec

__all__ = ["NAMES", "Drawn", "draw"]

NAMES = sorted(n for n, row in FUNCTIONS.items() if not row.internal)

# Arguments that are numbers, or that a function has no derivative in.
_CALLS = {
    "polygamma": ("polygamma(1, {0})", "polygamma(2, {0})"),
    "gammainc": ("gammainc(1.5, {0})", "gammainc(a, {0})"),
    "gammaincc": ("gammaincc(1.5, {0})", "gammaincc(a, {0})"),
    "lowergamma": ("lowergamma(2.5, {0})",),
    "uppergamma": ("uppergamma(2.5, {0})",),
    "zeta": ("zeta(1.5 + {0})",),
    "root": ("root({0}, 3)", "root({0}, 2)"),
    "besselj": ("besselj(0, {0})", "besselj(1, {0})"),
    "bessely": ("bessely(0, {0})", "bessely(1, {0})"),
    "besseli": ("besseli(0, {0})", "besseli(1, {0})"),
    "besselk": ("besselk(0, {0})", "besselk(1, {0})"),
    "clamp": ("clamp({0}, -0.7, 0.9)", "clamp({0}, min={1})", "clamp({0}, max=a)", "clamp({0}, -1, {1})"),
    "threshold": ("threshold({0}, 0.5, 2)",),
    "pow": ("pow({0}, n)", "(1 + ({0})**2)**{1}", "({0})**2", "({0})**3", "({0})**-1", "(0.5 + abs({0}))**a", "2**{0}"),
    "leaky_relu": ("leaky_relu({0})", "leaky_relu({0}, 0.2)"),
    "elu": ("elu({0})", "elu({0}, a)"),
    "celu": ("celu({0})", "celu({0}, a)"),
    "softplus": ("softplus({0})", "softplus(a*{0})/a"),
    "hardtanh": ("hardtanh({0})", "hardtanh({0}, -2, 0.5)"),
    "softshrink": ("softshrink({0})", "softshrink({0}, a)"),
    "logit": ("logit(sigmoid({0}))", "logit({0})"),
    "round": ("round({0})",),
}
_DEFINED_BY = {"binomial", "factorial", "gamma", "beta", "lbeta"}  # of positive arguments alone

_FREE = 5  # of so many seeds of rows one declares no shapes
_TOTALS = 0.3  # the share of formulas of rows that have totals beside them
_REDUCTIONS = ("sum", "mean", "amax", "amin", "logsumexp", "var", "std", "norm", "prod")
_ALONG = ("softmax({0}, dim=-1)", "log_softmax({0}, dim=-1)", "cumsum({0}, dim=-1)", "cummax({0}, dim=-1).values")
_MOVING = (
    *("flip({0}, [-1])", "roll({0}, 1, -1)", "sort({0}, dim=-1).values", "tril({0})", "triu({0}, 1)"),
    *("sum({0}, dim=0, keepdim=True)", "max({0}, dim=-1, keepdim=True).values", "pad({0}[:, 1:], [1, 0])"),
    *("({0} @ {1}.mT) @ {1}", "einsum('bi,bj->bj', {0}, {1})", "cumsum(flip({0}, [0]), dim=0)", "{0}.T.T"),
    *("cat([{0}, {1}], dim=-1)[:, ::2]", "stack([{0}, {1}], dim=0)[0]", "chunk({0} + 0*{1}, 1, dim=-1)[0]"),
    *("norm({0}, p=oo, dim=-1, keepdim=True)", "norm({0}, p=1, dim=-1, keepdim=True)", "outer({0}[:, 0], {1}[0])"),
    *("cumprod({0}, dim=-1)", "logcumsumexp({0}, dim=-1)", "cummin({0}, dim=0).values", "topk({0}, 1, dim=-1).values"),
    *("median({0}, dim=-1, keepdim=True).values", "diff({0}, 1, -1)", "{0}[:, 1:] - {1}[:, :-1]", "detach({0}) * {1}"),
    *("transpose(transpose({0}, 0, 1) * {1}.T, 0, 1)", "movedim({0}, 0, 1).T * {1}", "squeeze({0}[:, None], 1) + {1}"),
    *("reshape({0}, [-1]) * flatten({1})", "permute({0}, [1, 0]) + {1}.T"),
    *("take_along_dim({0}, argmax({1}, dim=-1, keepdim=True), -1)", "flatten({0}) * 2"),
    *("cdist({0}, {1})", "trace({0} @ {1}.mT)", "diagonal({0} @ {1}.mT)", "det({0} @ {0}.mT + eye({0}.shape[0]))"),
    *("max({0}, dim=0).values", "mean({0}, dim=0) - var({1}, dim=0)", "softmax({0}, dim=0) * {1}", "std({0}, dim=0)"),
    *("logsumexp({0}, dim=0)", "amax({0}, dim=0, keepdim=True) - {1}", "prod({0}, dim=0)", "norm({0}, p=2, dim=0)"),
    *("count_nonzero({0}) * {1}", "{0}[..., 0] * {1}[..., -1]", "unsqueeze({0}, 0)[0] / (1 + {1}**2)"),
)
_PICKING = (
    *("gather({0}, -1, i[:, None])[:, 0] * sum({1}, dim=-1)", "{0} - gather({1}, -1, i[:, None])"),
    *("logsumexp({0}, dim=-1) - gather({0}, -1, i[:, None])[:, 0]", "sum(one_hot(i, N) * {0}, dim=-1) * v[i]"),
    *("cross_entropy({0}, i, reduction='none', ignore_index=1)", "where(i > 0, logsumexp({0}, dim=-1), 0)"),
    *("sum({0} * v[i][:, None], dim=-1)", "nll_loss({0}, i, v, reduction='none') - sum({1}, dim=-1)"),
    *("cross_entropy({0}, i, ignore_index=0)", "sum({0} * {1}) / sum(abs({0}))"),
    *("cross_entropy({0}, i, v, reduction='none', label_smoothing=0.3)", "where(arange(N) < i[:, None], {0}, {1})"),
)
_SCALARS = ("0", "1", "-1", "2", "0.5", "-0.5", "1/3", "3", "1e-3", "10", "pi")


_LABELS = 8  # one formula of rows of so many picks elements by whole numbers
_DOMAINS = ("(0, oo)", "[0, oo)", "(-1, 1)", "(-oo, 0)", "[1, oo)", "[0, 1]")
_BOUNDED = 0.15  # the share of formulas with a tensor that has a domain


_HYPERPARAMETERS = {
    "a": "{type: float, default: 0.75, domain: '(0, oo)'}",
    "n": "{type: int, default: 2}",
    "flag": "true",
    "axis": "{type: int, default: -1, domain: '[-2, 1]'}",
    "mode": "{type: str, default: mean, choices: [none, sum, mean]}",
    "seed": "{type: int, default: 0}",
}


@dataclass(frozen=True)
class Drawn:
    """A formula, what it is of, and the seed that draws it again."""

    seed: int
    kind: str  # pointwise, rows, labels, whole or wide
    formula: str
    let: dict[str, str] = field(default_factory=dict)
    domain: str = ""  # of x
    tensors: dict[str, str] = field(default_factory=dict)  # in place of the usual ones
    others: dict[str, str] = field(default_factory=dict)  # outputs beside y
    fixed: frozenset[str] = frozenset()  # those that have no gradient
    options: str = ""
    free: bool = False  # whether the usual tensors have no declared shapes

    @property
    def op(self) -> str:
        return f"found_{self.seed}"

    @property
    def text(self) -> str:
        """The spec in YAML, with the hyperparameters that the formula reads."""
        words = set(_words(" ".join([self.formula, *self.let.values(), *self.others.values()])))
        tensors = {t: f"{{{s}}}" for t, s in self.tensors.items()} or self._usual
        own = {t: s for t, s in tensors.items() if t in words} or {"x": tensors["x"]}
        lines = [f"op: {self.op}", f"tensors: {{{', '.join(f'{t}: {s}' for t, s in own.items())}}}"]
        numbers = [f"{h}: {value}" for h, value in _HYPERPARAMETERS.items() if h in words]
        if numbers:
            lines.append(f"hyperparameters: {{{', '.join(numbers)}}}")
        if self.let:
            lines.append(f"let: {{{', '.join(f'{n}: {_quoted(t)}' for n, t in self.let.items())}}}")
        texts = {n: _quoted(t) for n, t in {"y": self.formula, **self.others}.items()}
        outputs = {n: f"{{expr: {t}, grad: false}}" if n in self.fixed else t for n, t in texts.items()}
        lines.append(f"outputs: {{{', '.join(f'{n}: {t}' for n, t in outputs.items())}}}")
        return "\n".join([*lines, *([f"options: {{{self.options}}}"] if self.options else [])]) + "\n"

    @property
    def _usual(self) -> dict[str, str]:
        shape = "" if self.kind == "pointwise" or self.free else "{shape: [B, N]}"
        tensors = {"x": shape, "w": shape, "v": shape and "{shape: [N]}", "i": "{shape: [B], dtype: int}"}
        if self.domain:
            tensors["x"] = f"{{{'shape: [B, N], ' if shape else ''}domain: '{self.domain}'}}"
        return tensors

    @cached_property
    def spec(self) -> Spec:
        return parse_spec(self.text)


def _quoted(text: str) -> str:
    return '"' + text + '"'


def _words(text: str) -> list[str]:
    return "".join(c if c.isalnum() or c == "_" else " " for c in text).split()


def draw(seed: int) -> Drawn:
    """The formula of a seed: mostly small, for faults are, and one that is small is compiled fast."""
    chance = random.Random(seed)
    kind = chance.choice(("pointwise", "pointwise", "pointwise", "rows", "rows", "whole"))
    if kind == "rows" and seed % _LABELS == 4:
        kind = "labels"
    size = chance.choice((1, 1, 2, 2, 2, 3, 3, 4, 6))
    let: dict[str, str] = {}
    if chance.random() < 0.2:  # a node that several others read
        let["u"] = _value(chance, size // 2, ("x", "w"))
    leaves = ("x", "x", "w", "v", *let, *let)
    value = _value(chance, size, leaves)
    if kind == "rows":
        value = _rows(chance, value, leaves)
        value = _beside_totals(random.Random(-seed), value, leaves)
    elif kind == "labels":
        value = chance.choice(_PICKING).format(f"({value} + x)", f"({_value(chance, 1, leaves)} + x)")
    elif kind == "whole":
        value = chance.choice(_MOVING).format(f"({value})", f"({_value(chance, 1, leaves)})")
        value = chance.choice(("{0}", "{0}", "sum({0})", "{0} * w")).format(value)
    if "u" not in _words(value):
        let = {}
    own = random.Random(~seed)
    domain = own.choice(_DOMAINS) if own.random() < _BOUNDED else ""
    return Drawn(seed, kind, value, let, domain, free=kind == "rows" and seed % _FREE == 2)


def _rows(chance: random.Random, value: str, leaves: tuple[str, ...]) -> str:
    way = chance.randrange(5)
    name = chance.choice(_REDUCTIONS)
    if way == 0:
        return f"{name}({value}, dim=-1)"
    if way == 1:
        return f"({value}) * {name}({_value(chance, 1, leaves)}, dim=-1, keepdim=True)"
    if way == 2:
        return f"({value}) {chance.choice('-/+')} {name}({value}, dim=-1, keepdim=True)"
    if way == 3:
        return f"{chance.choice(('sum', 'mean', name))}({value})"
    return chance.choice(_ALONG).format(value) + chance.choice(("", f" * ({_value(chance, 1, leaves)})"))


def _beside_totals(chance: random.Random, value: str, leaves: tuple[str, ...]) -> str:
    """A value, or it beside products of rows, of their totals, and of totals of everything, whose gradients have sums
    to several shapes."""
    if chance.random() > _TOTALS or value.endswith(", dim=-1)"):  # which may have lost its rows
        return value

    def factor() -> str:
        own = _value(chance, chance.choice((0, 0, 1)), leaves)
        return chance.choice(
            ("({})", "sum({}, dim=-1, keepdim=True)", "mean({}, dim=-1, keepdim=True)", "sum({})")
        ).format(own)

    terms = [" * ".join(factor() for _ in range(chance.choice((1, 2, 3)))) for _ in range(chance.choice((1, 2)))]
    return f"({value}) {chance.choice('+*')} ({' + '.join(terms)})"


def _value(chance: random.Random, size: int, leaves: tuple[str, ...]) -> str:
    """A value of about so many operations."""
    if size <= 0:
        return chance.choice(leaves)

    def part() -> str:
        return _value(chance, chance.randrange(size), leaves)

    way = chance.randrange(12)
    if way < 3:
        return f"({part()} {chance.choice('+-*/')} {part()})"
    if way == 3:
        number = chance.choice(_SCALARS)
        text = part()
        return chance.choice(
            (f"({number} {chance.choice('+-*/')} {text})", f"({text} {chance.choice('+-*')} {number})")
        )
    if way == 4:
        condition = f"{part()} {chance.choice(('<', '>=', '>', '<=', '=='))} {chance.choice(('0', part()))}"
        condition = chance.choice((condition, condition, f"({condition}) & flag", "flag"))
        return f"where({condition}, {part()}, {part()})"
    if way == 5:
        return f"({chance.choice(('a', 'n'))} {chance.choice('*+')} {part()})"
    return _call(chance, part)


def _call(chance: random.Random, part: object) -> str:
    assert callable(part)
    name = chance.choice(NAMES)
    row = FUNCTIONS[name]
    if name in _CALLS:
        return chance.choice(_CALLS[name]).format(part(), part())
    arguments = [part() for _ in range(row.required)]
    if chance.random() < 0.85:  # else wherever it leads
        low, high = row.domain
        if name in _DEFINED_BY:
            arguments = [f"(0.5 + abs({a}))" for a in arguments]
        elif (low, high) == (-1, 1):
            arguments[-1] = f"tanh({arguments[-1]})"
        elif (low, high) == (0, 1):
            arguments[-1] = f"sigmoid({arguments[-1]})"
        elif low == 1:
            arguments[-1] = f"(1 + abs({arguments[-1]}))"
        elif low == -1:
            arguments[-1] = f"expm1({arguments[-1]})"
        elif low == 0:
            arguments[-1] = chance.choice(("abs({})", "exp({})", "(0.5 + ({})**2)")).format(arguments[-1])
    return f"{name}({', '.join(arguments)})"
