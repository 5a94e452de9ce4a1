"""Docstrings of generated modules: formula, derivatives, plan, accuracy and source."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from symgrad.accuracy.candidates import Candidate
from symgrad.accuracy.measure import ulp_text
from symgrad.explain.equations import derivatives, readable, with_sizes
from symgrad.ir.expr import symbol
from symgrad.ir.traversal import substitute
from symgrad.parse.formula import formula
from symgrad.spec.model import Hyperparameter, Tensor
from symgrad.targets.torch.layout import Layout

_WIDTH = 96
_MOST_LINES = 30  # of derivatives, beyond which nobody reads them: backward has them step by step
_LONGEST_RESIDUAL = 100  # characters of one that is written out
_INDENTED = 90  # characters between the quotes of a docstring that is one line, at one level of indentation


def listed(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else list(items))


def escaped(text: str) -> str:
    """Text that may stand in a triple-quoted string, without trailing spaces."""
    clean = text.replace("\\", "\\\\")
    body = clean.rstrip('"')
    return body.replace('"""', '\\"\\"\\"') + '\\"' * (len(clean) - len(body))


def wrapped(text: str, width: int = _WIDTH) -> str:
    """Prose wrapped to the width, paragraphs kept."""
    paragraphs = [p for p in text.strip().split("\n\n") if p.strip()]
    return "\n\n".join(textwrap.fill(" ".join(p.split()), width, break_long_words=False) for p in paragraphs)


def summary(layout: Layout) -> str:
    """The spec's summary, or the operation's name, as one sentence."""
    text = " ".join(layout.spec.summary.split()) or f"{layout.spec.op}, generated from a formula"
    return text if text.endswith((".", "!", "?")) else text + "."


def function_docstring(layout: Layout, notes: Sequence[str]) -> str:
    """The summary, what the spec says of arguments and outputs, a line each, and notes."""
    spec = layout.spec
    said = []
    arguments: tuple[Tensor | Hyperparameter, ...] = (*spec.tensors, *spec.hyperparameters)
    for argument in arguments:
        domain = "" if argument.domain is None else f" in {argument.domain}"
        meaning = f": {argument.doc}" if argument.doc else ""
        said += [f"{argument.name}{domain}{meaning}"] if domain or meaning else []
    said += [f"{o.name}: {o.doc}" for o in spec.outputs if o.doc]
    lines = [wrapped(text, 90).replace("\n", "\n    ") for text in said]
    parts = [summary(layout), "\n".join(lines), wrapped(" ".join(notes), 92)]
    return escaped("\n\n".join(p for p in parts if p))


def module_docstring(layout: Layout, note: str = "", proven: str = "") -> str:
    """Formula, derivatives, what is saved, how accurate it is, what is proven, a note, and where it comes from."""
    certificate = f"Proven: {proven}" if proven else ""  # as `files/hashes.py` knows it
    facts = "\n".join(filter(None, [_residuals(layout), _accuracy(layout), certificate]))
    return page(layout, facts, wrapped(note))


def page(layout: Layout, *facts: str) -> str:
    """Formula and derivatives, some facts, the spec's own words, and where it comes from."""
    spec = layout.spec
    reference = f"Reference: {spec.reference}" if spec.reference else ""
    parts = [summary(layout), equations(layout), derivatives_text(layout), *facts]
    parts += [wrapped(spec.doc), wrapped(reference)]
    return escaped("\n\n".join(p for p in parts if p))


def equations(layout: Layout) -> str:
    """The formula as the spec writes it."""
    return _table(layout.spec.equations)


def _table(rows: Sequence[tuple[str, str]]) -> str:
    width = max((len(name) for name, _ in rows), default=0)
    lines = []
    for name, text in rows:
        lead = f"    {name:<{width}} = "
        first, *rest = broken(text, _WIDTH - len(lead))
        lines += [lead + first, *(" " * len(lead) + line for line in rest)]
    return "\n".join(lines)


_OPERATORS = ("+", "-", "*", "/", "@", "<", "<=", ">", ">=", "==", "!=", "&", "|", "and", "or")
_LOOSE = ("+", "-", "and", "or")


def broken(text: str, width: int) -> list[str]:
    """A formula in lines, which end before operators and after commas, outside of parentheses where they can."""
    lines: list[str] = []
    while len(text) > width:
        places = _places(text)
        fitting = [p for p in places if p[1] <= width]
        preferred = [p for p in fitting if 2 * p[1] > width] or fitting or places[:1]
        if not preferred:
            break
        _, end = min(preferred, key=lambda p: (p[0], -p[1]))
        lines.append(text[:end])
        text = text[end + 1 :]
    return [*lines, text]


def _places(text: str) -> list[tuple[int, int]]:
    """Where a line may end, with how tightly what follows is bound: by parentheses, then by operators."""
    found: list[tuple[int, int]] = []
    depth = 0
    for k, sign in enumerate(text):
        depth += (sign in "([") - (sign in ")]")
        if sign == " " and k:
            word = text[k + 1 :].split(" ", 1)[0]
            if word in _OPERATORS or text[k - 1] == ",":
                found.append((2 * depth + (word in _OPERATORS and word not in _LOOSE), k))
    return found


def derivatives_text(layout: Layout) -> str:
    blocks = []
    for path, variant in layout.operation.derivative_variants():
        rows = derivatives(variant, layout.operation.program)
        if rows:
            table = _table(rows)
            long = table.count("\n") >= _MOST_LINES
            blocks.append((path, "The derivatives are long; backward computes them step by step." if long else table))
    if len({block for _, block in blocks}) == 1:
        return blocks[0][1]
    return "\n\n".join(f"where {' and '.join(path)}:\n{block}" if path else block for path, block in blocks)


def _residuals(layout: Layout) -> str:
    texts = []
    lets = {form: symbol(name) for form, name in layout.lets.items()}
    own = {o.name for o in layout.spec.outputs}
    for _, variant in layout.operation.derivative_variants():
        base = [s for s in variant.plan.base if not s.spared]
        outputs = lets | {form: symbol(name) for name, form in variant.outputs.items() if form.args and name in own}
        names = [formula(s.value if s.source == "input" else substitute(s.value, outputs)) for s in base]
        texts.append(listed(names) if names else "nothing")
    values = [s.value for variant in layout.variants for s in layout.kept(variant)]
    written = dict.fromkeys(formula(readable(with_sizes(substitute(value, lets)))) for value in values)
    kept = [text for text in written if len(text) <= _LONGEST_RESIDUAL]
    long = len(written) - len(kept)
    kept += [f"{long} {'more' if kept else 'long'} intermediate{'s' * (long > 1)}"] if long else []
    saved = list(dict.fromkeys(text for text in texts))
    text = f"Residuals: {' or '.join(saved) if len(saved) > 1 else saved[0]}"
    if kept:
        which = "which is" if len(written) == 1 else "which are"
        again = "" if layout.is_once else f", {which} recomputed where backward is differentiated"
        text = f"Residuals: {listed(kept)}" if saved == ["nothing"] else f"{text}; and {listed(kept)}"
        text += again
    return wrapped(" ".join([f"{text}.", *_packings(layout)]))


def _packings(layout: Layout) -> Iterator[str]:
    """What is kept in fewer bits, and how far derivatives are off."""
    kept = dict.fromkeys(s.packing for v in layout.variants for s in v.plan.saved if s.packing is not None)
    for packing in kept:
        if packing.error:
            what = f"off by at most {packing.error}, and gradients by what that changes"
            yield f"{packing.name} is kept as {packing.form}, {what}."
        else:
            yield f"The mask of {packing.name} is kept as bits."


def _accuracy(layout: Layout) -> str:
    """The worst figures over the variants."""
    values = [c.chosen for v in layout.variants for c in v.value_choices.values()]
    slopes = [c.chosen for v in layout.variants for c in v.slope_choices.values()]
    if not values:
        return ""
    text = f"Float32: value within {_ulp(values)} ulp"
    if slopes:
        text += f", derivatives within {_ulp(slopes)} ulp"
    text += " (beyond the conditioning of the formula)"
    if wide := list(dict.fromkeys(n for v in layout.variants for n in v.in_float64)):
        text += f"; {listed(wide)} evaluated in float64"
    return wrapped(text + ".")


def _ulp(candidates: Sequence[Candidate]) -> str:
    return ulp_text(max(c.float32.ulp for c in candidates))


def class_docstring(layout: Layout) -> str:
    """The formula, and what is differentiable in what."""
    spec = layout.spec
    wanted = layout.differentiable
    smooth = [o.name for o in spec.outputs if o.grad]
    lost = "once by autograd, to any order in torch.func" if layout.is_once else "to any order, in any mode"
    order = lost if spec.options.double_backward else "once"
    names = listed([o.name for o in spec.outputs])
    text = f"{names} of {spec.op}"
    if len(spec.outputs) == 1:
        only = spec.outputs[0].formula.line
        if len(only) < 50 and "\n" not in only:
            text = f"{names} = {only}"
    subject = "," if len(smooth) == len(spec.outputs) else f"; {listed(smooth)} {'is' if len(smooth) == 1 else 'are'}"
    ending = f"{subject} differentiable in {listed(wanted)} {order}." if wanted and smooth else ", not differentiable."
    if any(v.overrides for v in layout.variants):
        ending = f", with its own gradient for {listed(list(layout.variants[0].overrides))}."
    if len(text + ending) > _INDENTED:
        text = f"{names} of {spec.op}"
    if len(text + ending) > _INDENTED and len(wanted) == len(spec.tensors):
        ending = ending.replace(f" in {listed(wanted)} ", " ")
    return one_or_more_lines(text + ending)


def one_or_more_lines(text: str) -> str:
    """The inside of a docstring at one level of indentation; more than a line ends with a line break."""
    lines = wrapped(text, _INDENTED)
    return escaped(f"{lines}\n" if "\n" in lines else lines)
