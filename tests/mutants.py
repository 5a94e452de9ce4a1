"""Mistakes that the suite must notice: ``python -m tests.mutants`` makes each of them in a generated module, and fails
if one survives.

Mistakes of modules are made on their syntax trees: every arithmetic operator, comparison, constant and sign of every
method in turn, every gradient that is returned, every term that is added, every helper that is left out. Those of what
modules share are listed one by one, with the operation in which they must be noticed.
"""

from __future__ import annotations

import ast
import copy
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

from symgrad.importing import import_generated
from symgrad.notebook import Generated, generate
from symgrad.testing import CHECKS, Subject
from symgrad.testing.checks import applicable, run

ROOT = Path(__file__).parent.parent
RUNTIME = "_runtime.py"


@dataclass(frozen=True)
class Mutant:
    """A mistake: in a file of an operation, made by a function of its text."""

    op: str
    file: str
    mistake: str
    make: Callable[[str], str]

    def __str__(self) -> str:
        return f"{self.op}: {self.mistake}"


# ------------------------------------------------------------------------------------------ of modules
MODULES = (
    "swish",
    "huber",
    "softshrink",
    "split_signs",
    "linear_relu",
    "smooth_l1",
    "clamp",
    "mean",
    "log_sum_exp_dim",
    "apart",
    "fused",
    "least",
)

_OWN = {
    "apart": "{op: apart, tensors: {x: , y: }, outputs: {a: sin(x)*y, b: cos(x)}}\n",
    "fused": "{op: fused, tensors: {x: , w: }, outputs: {y: x*sigmoid(w*x)}, options: {kernels: all}}\n",
    "least": "{op: least, tensors: {x: , w: }, outputs: {y: amin(3*x + w)}}\n",
}

# Mistakes in fused passes: what is wrong, what is replaced, and by what.
KERNELS = (
    (
        "the gradient of w where it is asked for alone",
        "result[1] = product * x * grad_y;",
        "result[1] = product * x * grad_y * (wanted == 2 ? V(2) : V(1));",
    ),
    (
        "the gradient of w where both are asked for",
        "result[1] = product * x * grad_y;",
        "result[1] = product * x * grad_y * (wanted == 3 ? V(2) : V(1));",
    ),
    (
        "the tangent of w alone",
        "result[0] = exp_ * reciprocal_ * reciprocal_ * tangent_w * x * x;",
        "result[0] = exp_ * reciprocal_ * reciprocal_ * tangent_w * x;",
    ),
    (
        "a second derivative",
        "result[0] = product * (product3 + 2 * (product4 * w));",
        "result[0] = product * (product3 + product4 * w);",
    ),
)

# Mistakes that change nothing that anyone could notice, each with its reason.
EQUIVALENT: dict[str, str] = {
    "smooth_l1: SmoothL1Function.forward: `magnitude_d <= beta` for `magnitude_d < beta`": "both branches meet there",
    "smooth_l1: SmoothL1Function.backward: `torch.abs(d) > beta` for `torch.abs(d) >= beta`": "and so do their slopes",
    "smooth_l1: SmoothL1Function.jvp: `torch.abs(d) > beta` for `torch.abs(d) >= beta`": "and so do their slopes",
    "huber: HuberFunction.forward: `magnitude_d < delta` for `magnitude_d <= delta`": "both branches meet there",
    "softshrink: SoftshrinkFunction.forward: `x <= -threshold` for `x < -threshold`": "both branches are 0 there",
    "log_sum_exp_dim: residuals read in forward over reverse": "none is kept while forward mode is on",
    "linear_relu: LinearReluFunction.backward: no fit: `chosen @ weight`": "it has the shape, and autograd rounds it",
    "linear_relu: LinearReluFunction.backward: no fit: `rt.rows(chosen).mT @ rt.rows(x)`": "so does this",
    "softshrink: SoftshrinkFunction.forward: `x >= threshold` for `x > threshold`": "both branches are 0 there",
}

_SWAPPED: dict[type[ast.AST], ast.AST] = {
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.Div(),
    ast.Div: ast.Mult(),
    ast.Pow: ast.Mult(),
    ast.Lt: ast.LtE(),
    ast.LtE: ast.Lt(),
    ast.Gt: ast.GtE(),
    ast.GtE: ast.Gt(),
    ast.BitAnd: ast.BitOr(),
    ast.BitOr: ast.BitAnd(),
}
_OF_ONE = frozenset({"sigmoid", "tanh", "exp", "log", "log1p", "expm1", "abs", "sqrt", "relu", "neg", "sign", "square"})
_ALONE = frozenset({"softshrink", "split_signs", "clamp", "mean", "log_sum_exp_dim"})  # gradients have the shape anyway
_METHODS = frozenset({"forward", "setup_context", "backward", "jvp"})


def of_module(op: str, text: str) -> Iterator[Mutant]:
    """The mistakes that can be made in the Function and the nn.Module of a module.

    Nothing is asked of the eager body of one whose fused passes serve every call.
    """
    if op == "fused":
        return
    for place, mistake in _sites(ast.parse(text)):
        if "no fit" in mistake and op in _ALONE:
            continue
        yield Mutant(op, f"{op}.py", mistake, lambda text, place=place: _made(text, place))


def _sites(tree: ast.Module) -> Iterator[tuple[tuple[int, int], str]]:
    """The nodes at which there is a mistake to make, by number, with the number of the mistake and what it is."""
    for k, node, method in _numbered(tree):
        for m, (mistake, _) in enumerate(_mistakes(node)):
            yield (k, m), f"{method}: {mistake}"


def _numbered(tree: ast.Module) -> Iterator[tuple[int, ast.AST, str]]:
    """The nodes inside of the methods that compute, numbered over the whole tree."""
    inside: dict[int, str] = {}
    for holder in (n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)):
        for method in (n for n in holder.body if isinstance(n, ast.FunctionDef) and n.name in _METHODS):
            inside |= {id(n): f"{holder.name}.{method.name}" for b in method.body for n in ast.walk(b)}
    return ((k, n, inside[id(n)]) for k, n in enumerate(ast.walk(tree)) if id(n) in inside)


def _made(text: str, place: tuple[int, int]) -> str:
    tree = ast.parse(text)
    node = next(n for k, n, _ in _numbered(tree) if k == place[0])
    _, put = list(_mistakes(node))[place[1]]
    if put is None:

        class Dropper(ast.NodeTransformer):
            def visit(self, n: ast.AST) -> Any:
                return ast.Pass() if n is node else self.generic_visit(n)

        tree = Dropper().visit(tree)
    else:
        fields = vars(put).copy()
        node.__class__ = put.__class__
        vars(node).clear()
        vars(node).update(fields)
    return ast.unparse(ast.fix_missing_locations(tree))


def _mistakes(node: ast.AST) -> Iterator[tuple[str, ast.AST | None]]:
    """What can be done wrong at a node, and what stands there then; None where it is dropped."""
    shown = ast.unparse(node) if isinstance(node, (ast.expr, ast.stmt)) else ""
    if isinstance(node, ast.BinOp) and type(node.op) in _SWAPPED:
        changed = copy.deepcopy(node)
        changed.op = _SWAPPED[type(node.op)]  # type: ignore[assignment]
        yield f"`{ast.unparse(changed)}` for `{shown}`", changed
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPPED:
        changed_ = copy.deepcopy(node)
        changed_.ops = [_SWAPPED[type(node.ops[0])]]  # type: ignore[list-item]
        yield f"`{ast.unparse(changed_)}` for `{shown}`", changed_
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield f"no sign in `{shown}`", copy.deepcopy(node.operand)
    if isinstance(node, ast.Constant) and type(node.value) is float:
        yield f"{node.value + 0.5} for {node.value}", ast.Constant(node.value + 0.5)
    if isinstance(node, ast.AugAssign):
        yield f"no `{shown}`", None
    if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
        for k, element in enumerate(node.value.elts):
            if isinstance(element, ast.Name):
                less = copy.deepcopy(node)
                less.value.elts[k] = ast.Constant(None)  # type: ignore[union-attr]
                yield f"None for {element.id} in `{shown}`", less
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        owner, name = ast.unparse(node.func.value), node.func.attr
        if (owner, name) == ("rt", "fit"):
            yield f"no fit: `{ast.unparse(node.args[2])}`", copy.deepcopy(node.args[2])
        if (owner, name) == ("rt", "narrow"):
            yield f"no rounding of `{ast.unparse(node.args[0])}`", copy.deepcopy(node.args[0])
        if owner == "torch" and name in _OF_ONE:
            yield f"no {name} of `{ast.unparse(node.args[0])}`", copy.deepcopy(node.args[0])
        if (owner, name) == ("torch", "where") and len(node.args) == 3:
            other = copy.deepcopy(node)
            other.args[1:] = other.args[:0:-1]
            yield f"`{ast.unparse(other)}` for `{shown}`", other
        if (owner, name) == ("rt", "save"):
            more = copy.deepcopy(node)
            more.args.append(ast.parse("inputs[0] + 1", mode="eval").body)
            yield "one tensor more is saved", more
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id.startswith("needs_"):
        always = copy.deepcopy(node)
        always.test = ast.Constant(True)
        yield f"`if True` for `if {node.test.id}`", always


# ------------------------------------------------------------------------------------------ of what modules share
@dataclass(frozen=True)
class _Text:
    """A piece of text and what is put in its place."""

    found: str
    put: str

    def __call__(self, text: str) -> str:
        if self.found not in text:
            raise LookupError(f"there is no {self.found!r} to change")
        return text.replace(self.found, self.put)


SHARED: tuple[tuple[str, str, str, str], ...] = (
    (
        "log_sum_exp_dim",
        "second derivatives lost through residuals",
        "return torch.is_grad_enabled() or forward_mode()",
        "return False",
    ),
    (
        "log_sum_exp_dim",
        "residuals read in forward over reverse",
        "return torch.is_grad_enabled() or forward_mode()",
        "return torch.is_grad_enabled()",
    ),
    ("swish", "cotangents are materialised", "    ctx.set_materialize_grads(False)\n", ""),
    (
        "swish",
        "a tensor is kept on ctx",
        "    ctx.residuals = len(residuals)\n",
        "    ctx.residuals = len(residuals)\n    ctx.kept = saved\n",
    ),
    ("swish", "forward mode is off inside jvp", "with _set_forward_mode(True):", "with _set_forward_mode(False):"),
    ("swish", "primals keep this level's tangent", "return _forward_ad.unpack_dual(t, level=0).primal", "return t"),
    ("swish", "vmap does not see through primals", "if not (_CAN_LOOK_INSIDE and _is_batched(t)):", "if True:"),
    (
        "swish",
        "gradients keep the arithmetic's dtype",
        "return grad if grad.dtype == kind else grad.to(kind)",
        "return grad",
    ),
    (
        "swish",
        "gradients are not summed",
        "    return grad.sum_to_size(shape) if shape else grad.sum()",
        "    return grad",
    ),
    (
        "swish",
        "gradients are rounded before they are summed",
        "    grad = _summed(grad, shape(ctx, place))\n    kind",
        "    grad = _summed(grad.to(dtype(ctx, place)), shape(ctx, place))\n    kind",
    ),
    (
        "swish",
        "half precision is not widened",
        "        if first not in _HALF:\n            return *values, None\n    given",
        "        return *values, None\n    given",
    ),
    (
        "swish",
        "mixed dtypes are widened to the wrong one",
        "kind = torch.promote_types(dtype, torch.float32)",
        "kind = torch.float32",
    ),
    (
        "least",
        "what was computed is compared with what was rounded",
        "return value if value.dtype in kinds else None",
        "return value",
    ),
    ("swish", "results are not rounded", "    return value.to(dtype)\n", "    return value\n"),
    (
        "apart",
        "zeros without a device",
        "torch.zeros(shape, dtype=kind, device=device)",
        "torch.zeros(shape, dtype=kind)",
    ),
    (
        "apart",
        "zeros in the default dtype",
        "torch.zeros(shape, dtype=kind, device=device)",
        "torch.zeros(shape, device=device)",
    ),
    (
        "swish",
        "complex numbers are taken",
        "if not isinstance(value, Tensor) or value.is_complex():\n            break",
        "if not isinstance(value, Tensor):\n            break",
    ),
    (
        "linear_relu",
        "a size of 1 stands for any",
        "            if size != known and where:",
        "            if 1 in (size, known):\n                continue\n            if size != known and where:",
    ),
    (
        "linear_relu",
        "ranks are not checked",
        "if len(shape) < len(fixed) or (len(shape) > len(fixed) and len(fixed) == len(dims)):",
        "if False:",
    ),
)


@cache
def generated(op: str) -> Generated:
    """The files of a spec of the repository, or of one that stands here."""
    return generate(_OWN[op] if op in _OWN else ROOT / "specs" / f"{op}.yaml")


def subject_of(
    folder: Path, item: Generated, changed: Mapping[str, str] = MappingProxyType({}), *, parents: bool = False
) -> Subject:
    """What the generated test states, in a package that is written to a folder with some files changed."""
    folder.mkdir(parents=parents)
    texts = {"__init__.py": "", f"{item.op}.py": item.module, f"test_{item.op}.py": item.test}
    for name, text in {**texts, **item.shared, **item.passes, **changed}.items():
        (folder / name).write_text(text, encoding="utf-8")
    module = import_generated(folder / f"test_{item.op}.py")
    found = next(v for k, v in vars(module).items() if k.startswith("Test"))
    stated: Subject = found.subject()
    return stated


def mutants(ops: Sequence[str] = MODULES) -> list[Mutant]:
    """All mistakes in some operations."""
    found = [m for op in ops for m in of_module(op, generated(op).module)]
    found += [Mutant(op, RUNTIME, mistake, _Text(was, put)) for op, mistake, was, put in SHARED if op in ops]
    if "fused" in ops:
        found += [Mutant("fused", "fused.cpp", mistake, _Text(was, put)) for mistake, was, put in KERNELS]
    return [m for m in found if str(m) not in EQUIVALENT]


def _body_hash(source: str) -> str:
    return sha256(source[source.find("//\n") :].encode()).hexdigest()


def killer(mutant: Mutant, folder: Path, *, slow: bool = True) -> str | None:
    """The first check that notices a mistake, with what it says; None where all pass.

    Those that compile are ``slow``.
    """
    item = generated(mutant.op)
    texts = {f"{mutant.op}.py": item.module, **item.shared, **item.passes}
    changed = {mutant.file: mutant.make(texts[mutant.file])}
    if mutant.file in item.passes:  # of which the module knows the file that it was generated with
        was, is_ = (_body_hash(text) for text in (texts[mutant.file], changed[mutant.file]))
        changed[f"{mutant.op}.py"] = item.module.replace(was, is_)
    try:
        broken = subject_of(folder, item, changed)
    except (ImportError, NameError, SyntaxError, TypeError) as error:
        return f"import: {error}"
    for check in sorted(applicable(broken), key=lambda c: c.slow):
        found = run(check, broken) if slow or not check.slow else []
        if found:
            return str(found[0])
    return None


def main() -> int:
    """Make every mistake; print those that survive."""
    assert CHECKS
    wanted = sys.argv[1:]
    chosen = [m for m in mutants() if not wanted or any(w in str(m) for w in wanted)]
    survivors, start = [], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for k, mutant in enumerate(chosen):
            found = killer(mutant, Path(folder) / f"m{k}")
            print(f"{'survived' if found is None else 'killed':9}{mutant}  [{(found or '')[:60]}]", flush=True)
            survivors += [mutant] * (found is None)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mistakes were noticed in {time.monotonic() - start:.0f} s")
    return bool(survivors)


if __name__ == "__main__":
    sys.exit(main())
