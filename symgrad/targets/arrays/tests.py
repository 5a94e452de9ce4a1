"""What the generated tests of modules over arrays state: the formula, where it is sampled, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from symgrad.compiler.operation import Operation, Variant
from symgrad.compiler.workbench import Workbench
from symgrad.ir.expr import Expr
from symgrad.lower.code import words
from symgrad.lower.conditionals import branches
from symgrad.lower.naming import class_name
from symgrad.lower.program import Assign, Program, Return, reads, returned
from symgrad.lower.python import lines
from symgrad.resources import environment
from symgrad.targets.arrays.golden import golden
from symgrad.targets.arrays.layout import Layout
from symgrad.targets.arrays.module import Framework
from symgrad.targets.arrays.schedule import Target, statements
from symgrad.targets.constants import definitions
from symgrad.targets.formatting import format_python
from symgrad.targets.literals import literal, tuple_of
from symgrad.targets.torch.docs import summary
from symgrad.targets.torch.layout import Layout as Samples
from symgrad.targets.torch.samples import Shapes, accepted, in_sizes, large_shapes, refused, sampled_range, shapes
from symgrad.targets.torch.settings import settings

__all__ = ["facts", "render_test"]

_MOST_CASES = 4
_LARGE = (16, 17)


def render_test(operation: Operation, framework: Framework, package: str = "") -> str:
    """The test of an operation's module, formatted; it imports that from `package`, from beside itself if empty."""
    layout = Layout(operation, framework.spelling)
    context = {**facts(layout), **framework.tested(layout), "framework": framework, "package": package}
    return format_python(environment().get_template("arrays/test.py.j2").render(**context))


def facts(layout: Layout) -> dict[str, Any]:
    """What a template says of an operation in any framework."""
    spec, samples = layout.spec, Samples(layout.operation)
    rules = {t: _rule(layout, t, form) for t, form in layout.operation.program.gradients.items()}

    def written(of: Callable[[Expr], Expr]) -> Program:
        return branches(layout.operation.body, lambda variant: _composite(layout, variant, of), layout.condition)

    composite, reference = written(_as_written), written(Workbench(layout.operation.program).guarded)
    keywords, taken = _keywords(layout)
    empty = shapes(samples)[1]
    found: dict[str, Any] = {
        "op": spec.op,
        "class_name": class_name(spec.op),
        "summary": summary(samples),
        "signature": ", ".join([*layout.tensors, *keywords]),
        "composite": [*taken, *lines(composite)],
        "reference": [*taken, *lines(reference)] if reference != composite else [],
        "inputs": [_input(layout, samples, t.name) for t in spec.tensors],
        "cases": [f"({_mapping(layout, values)}, {literal(sizes)})" for values, sizes in _cases(samples)],
        "rules": [(tensor, [*taken, *lines(rule)]) for tensor, rule in rules.items()],
        "rule_arguments": ", ".join([*layout.tensors, *(f"grad_{o.name}" for o in spec.outputs), *keywords]),
        "linear": layout.operation.is_linear,
        "smooth": tuple_of(
            [str(o.grad and layout.promoted(layout.variants[0].formulas[o.name]) is not None) for o in spec.outputs]
        ),
        "refused": [f"({literal(name)}, {value}, {error})" for name, value, error in refused(spec)],
        "large": [literal(s) for s in large_shapes(samples)[:1] or (_large(samples) if empty else [])],
        "empty": [literal(s) for s in empty[:1]],
        "golden": list(golden(layout)),
        "owner": False,
        "sizes": "",
        "only_reverse": "",
    }
    found["imported"] = reads((*composite, *reference)).union(
        *map(reads, rules.values()), *(words(v) for _, v, _ in refused(spec))
    )
    found["constants"] = definitions(layout.constants)
    return found


def _keywords(layout: Layout) -> tuple[list[str], list[str]]:
    """How a function takes the hyperparameters, and the lines that name those whose own names mean something else."""
    pairs = list(zip(layout.hyperparameters, layout.values, strict=True))
    own = [name for name, local in pairs if name == local]
    others = [f"{local} = others[{literal(name)}]" for name, local in pairs if name != local]
    return [*(["*", *own] if own else []), *(["**others"] if others else [])], others


def _as_written(form: Expr) -> Expr:
    return form


def _composite(layout: Layout, variant: Variant, of: Callable[[Expr], Expr]) -> Program:
    """The formulas as written, or others made of them."""
    scope = layout.scope(layout.symbols(variant), variant)
    targets, results = list[Target](), list[str]()
    for name, form in ((name, of(formula)) for name, formula in variant.formulas.items()):
        if len(variant.formulas) == 1:
            targets.append(Target(form, Return))
        else:
            targets.append(Target(form, partial(Assign, layout.outputs[name])))
            results.append(layout.outputs[name])
    program = statements(targets, scope, layout.printer)
    return (*program, returned(results)) if results else program


def _rule(layout: Layout, tensor: str, form: Expr) -> Program:
    """A gradient that the spec gives, as written."""
    program = layout.operation.program
    known = {**layout.symbols(), **{s: f"grad_{o}" for o, s in program.cotangents.items()}}
    scope = layout.scope(known, layout.variants[0])
    return statements([Target(form, Return)], scope, layout.printer)


def _input(layout: Layout, samples: Samples, tensor: str) -> str:
    t = next(t for t in layout.spec.tensors if t.name == tensor)
    low, high = sampled_range(t, layout.spec)
    more = [] if t.dtype == "float" else [f"dtype={literal(t.dtype)}"]
    more += [] if t.grad else ["grad=False"]
    return f"Input({', '.join([literal(t.name), repr(low), repr(high), *more])})"


def _cases(samples: Samples) -> list[tuple[Any, Any]]:
    """Hyperparameters and shapes: each value of the ones, each of the others, and those of absent arguments."""
    values, sizes = settings(samples), shapes(samples)[0]
    count = min(_MOST_CASES, max(len(values), len(sizes)))
    absent = [s for s in sizes if None in s][:1]
    chosen = [(values[k % len(values)], sizes[k % len(sizes)]) for k in range(count)]
    chosen += [(values[0], s) for s in absent]
    return list({repr(c): c for c in chosen}.values())


def _large(samples: Samples) -> list[Shapes]:
    """Shapes of many elements where nothing is declared, if the others fit to them."""
    tensors = samples.spec.tensors
    own = in_sizes(samples.spec, {})
    found = tuple(_LARGE if t.shape is None else size for t, size in zip(tensors, own, strict=True))
    return [found] if _LARGE in found and accepted(samples)(found) else []


def _mapping(layout: Layout, values: Any) -> str:
    names = layout.hyperparameters
    return f"{{{', '.join(f'{literal(n)}: {literal(v)}' for n, v in zip(names, values, strict=True))}}}"
