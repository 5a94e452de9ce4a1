"""An operation, differentiated, stabilised and planned: what every backend emits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from symgrad.accuracy.candidates import Choice
from symgrad.accuracy.rewrite import Step
from symgrad.accuracy.widening import without_float64
from symgrad.compiler.judges import Memory
from symgrad.compiler.override import Override
from symgrad.compiler.second import Second
from symgrad.ir.branches import Split, absent
from symgrad.ir.expr import Expr, symbol
from symgrad.ir.order import in_order
from symgrad.ir.traversal import substitute
from symgrad.parse import Program
from symgrad.parse.formula import formula
from symgrad.plan.meeting import Accumulated
from symgrad.plan.saving import Plan
from symgrad.spec import Spec


def quantity(output: str, tensor: str | None = None) -> str:
    """What an output, or its derivative in a tensor, is called: ``y``, ``dy/dx``."""
    return output if tensor is None else f"d{output}/d{tensor}"


@dataclass(frozen=True)
class Variant:
    """One straight-line version of the operation.

    `outputs` are the forms that forward computes. `gradients` and `tangents` hold, for each output and tensor, the
    contribution of that output's cotangent to that tensor's gradient, and of that tensor's tangent to that output's;
    `partials` the derivatives themselves, where an output is pointwise in a tensor.
    `accumulated` are the gradients with cotangents added up where their ways meet.
    `guarded` holds what they compute of forward once more, and how: with dead branches that are harmless to autograd.
    `wide_values` and `wide_slopes` say what is evaluated in float64 for smaller inputs; `wide_alone` are
    the derivatives that are so beside others, by output and tensor.
    """

    formulas: Mapping[str, Expr]
    outputs: Mapping[str, Expr]
    gradients: Mapping[tuple[str, str], Expr]
    overrides: Mapping[str, Override]
    tangents: Mapping[tuple[str, str], Expr]
    plan: Plan
    wide_values: bool
    wide_slopes: bool
    value_choices: Mapping[str, Choice]
    partials: Mapping[tuple[str, str], Expr]
    slope_choices: Mapping[tuple[str, str], Choice]
    recognitions: Mapping[str, tuple[Step, ...]] = field(default_factory=dict)
    wide_alone: frozenset[tuple[str, str]] = frozenset()
    second: Second = field(default_factory=Second)  # for fused passes
    guarded: Mapping[Expr, Expr] = field(default_factory=dict)
    lets: Mapping[Expr, str] = field(default_factory=dict)  # the spec's names of intermediates, by form
    accumulated: Accumulated = field(default_factory=lambda: Accumulated((), {}))
    stand_ins: Mapping[Any, Mapping[Expr, Expr]] = field(default_factory=dict)  # in a choice, and what they stand for

    @cached_property
    def for_passes(self) -> Variant:
        """The variant whose derivatives read what forward computes, which passes keep and nothing differentiates."""
        back = {own: node for node, own in self.guarded.items()}
        gradients = {key: substitute(g, back) for key, g in self.gradients.items()}
        tangents = {key: substitute(t, back) for key, t in self.tangents.items()}
        return replace(self, gradients=gradients, tangents=tangents, guarded={}) if back else self

    @cached_property
    def tensors(self) -> frozenset[Expr]:
        """The tensors that are read; an optional one that is not among them may be absent."""
        given = [*self.formulas.values(), *(o.gradient for o in self.overrides.values())]
        return frozenset[Expr]().union(*(form.tensors for form in given))

    @property
    def choices(self) -> list[tuple[str, str | None, Choice]]:
        """Every choice of a form: of which output, in which tensor if it is a derivative, and the choice."""
        values = [(output, None, choice) for output, choice in self.value_choices.items()]
        return [*values, *((output, tensor, choice) for (output, tensor), choice in self.slope_choices.items())]

    def is_wide(self, output: str, tensor: str) -> bool:
        """Whether a derivative is evaluated in float64 for smaller inputs."""
        return self.wide_slopes or (output, tensor) in self.wide_alone

    @cached_property
    def in_float64(self) -> list[str]:
        """What is evaluated in float64 for smaller inputs, in words."""
        alone = [quantity(y, x) for y, x in sorted(self.wide_alone)]
        return ["value"] * self.wide_values + ["derivatives"] * self.wide_slopes + alone

    def gradients_of(self, tensor: str) -> list[Expr]:
        """The contributions of the cotangents to a tensor's gradient, or what the spec gives instead."""
        override = self.overrides.get(tensor)
        return [g for (_, t), g in self.gradients.items() if t == tensor] if override is None else [override.gradient]

    def gradient_of(self, tensor: str) -> Expr:
        """The gradient of a tensor where every cotangent is there; 0 where it has none."""
        override = self.overrides.get(tensor)
        return self.accumulated.total(tensor) if override is None else override.gradient

    def tangent_of(self, output: str, tensor: str) -> Expr | None:
        """What a tensor's tangent gives to an output's, to whose shape the sum of all is expanded; None for nothing."""
        override = self.overrides.get(tensor)
        form = self.tangents.get((output, tensor)) if override is None else (override.transposed or {}).get(output)
        return form.args[0] if form is not None and form.op == "expand" and form.args[0].tensors else form

    def is_without(self, tensor: str, other: Variant) -> bool:
        """Whether the derivatives are those of `other` but for those of `tensor`, from the same saved values."""
        return (
            self._from_saved(self.gradients) == other._from_saved(other.gradients, tensor)
            and self._from_saved(self.tangents) == other._from_saved(other.tangents, tensor)
            and self.overrides == {t: o for t, o in other.overrides.items() if t != tensor}
            and [s.source for s in self.plan.base] == [s.source for s in other.plan.base]
            and [s.value for s in self.plan.extras] == [s.value for s in other.plan.extras]
            and (self.wide_slopes, self.wide_alone) == (other.wide_slopes, other.wide_alone)
        )

    def _from_saved(self, derivatives: Mapping[tuple[str, str], Expr], without: str = "") -> dict[Any, Expr]:
        """Derivatives as functions of what is saved: of inputs, and of other values by their place."""
        places = {s.value: symbol(f"saved {k}") for k, s in enumerate(self.plan.base) if s.source != "input"}
        return {key: substitute(value, places) for key, value in derivatives.items() if key[1] != without}


Body: TypeAlias = "Split[Variant] | Variant"
End = TypeVar("End")
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Operation:
    """A compiled operation: `body` is a variant, or Python branches with variants at their ends.

    `memory` holds what was measured, for whoever asks for figures later.
    """

    program: Program
    body: Body
    memory: Memory | None = field(default=None, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs: not what was measured, which it can measure again."""
        return {**self.__dict__, "memory": None}

    @cached_property
    def derivative_body(self) -> Body:
        """`body` for backward and jvp, which often need not ask whether an optional tensor is absent."""
        return _joined(self.body, {absent(t.name): t.name for t in self.program.spec.tensors})

    def in_one_type(self) -> Operation:
        """The same for frameworks that compute all derivatives in one type: in float64 where one of them needs it."""

        def visit(variant: Variant) -> Variant:
            if not variant.wide_alone:
                return variant
            gradients, tangents = (
                {key: without_float64(form) for key, form in forms.items()}
                for forms in (variant.gradients, variant.tangents)
            )
            return replace(
                variant,
                gradients=gradients,
                tangents=tangents,
                accumulated=variant.accumulated.with_forms(map(without_float64, variant.accumulated.forms)),
                wide_slopes=True,
                wide_alone=frozenset[tuple[str, str]](),
            )

        return replace(self, body=map_leaves(self.body, visit))

    @cached_property
    def is_linear(self) -> bool:
        """Whether every gradient is linear in the cotangents, so that there is forward mode: a spec may give others."""
        return all(o.transposed is not None for _, v in self.variants() for o in v.overrides.values())

    def variants(self) -> list[tuple[tuple[str, ...], Variant]]:
        """All variants with the conditions that lead to them, in order."""
        return [(_described(facts, self.program.spec), v) for facts, v in _leaves(self.body, ())]

    def derivative_variants(self) -> list[tuple[tuple[str, ...], Variant]]:
        """The variants of backward and jvp."""
        return [(_described(facts, self.program.spec), v) for facts, v in _leaves(self.derivative_body, ())]


def _joined(body: Body, absences: Mapping[Expr, str]) -> Body:
    """Drop the branches on an absent tensor that change nothing but that it has no gradient: nobody wants it then."""
    if isinstance(body, Variant):
        return body
    then, otherwise = (_joined(b, absences) for b in (body.then, body.otherwise))
    tensor = absences.get(body.condition)
    if tensor and isinstance(then, Variant) and isinstance(otherwise, Variant) and then.is_without(tensor, otherwise):
        return otherwise
    return Split(body.condition, then, otherwise)


def map_leaves(tree: Split[End] | End, visit: Callable[[End], Variant]) -> Body:
    """A tree of branches with every end visited."""
    if isinstance(tree, Split):
        then, otherwise = map_leaves(tree.then, visit), map_leaves(tree.otherwise, visit)
        return Split(tree.condition, then, otherwise)
    return visit(tree)


def leaves(body: Body) -> list[Variant]:
    """The variants at the ends of a tree of branches, in order."""
    return [variant for _, variant in _leaves(body, ())]


Facts: TypeAlias = "tuple[tuple[Expr, bool], ...]"
"""Python conditions and whether they hold."""


def _leaves(body: Body, facts: Facts) -> list[tuple[Facts, Variant]]:
    if isinstance(body, Variant):
        return [(facts, body)]
    then = _leaves(body.then, (*facts, (body.condition, True)))
    return then + _leaves(body.otherwise, (*facts, (body.condition, False)))


def _described(facts: Facts, spec: Spec) -> tuple[str, ...]:
    """What leads to a variant, in words of Python: of a text, the choices that are left."""
    open_choices = {h.name: list(h.choices or ()) for h in spec.hyperparameters if h.type == "str"}
    texts: dict[str, str] = {}
    for condition, holds in facts:
        text = formula(condition)
        if condition.op == "eq" and condition.args[1].op == "text" and condition.args[0].op == "sym":
            name, value = condition.args[0].name, condition.args[1]["value"]
            left = [value] if holds else [c for c in open_choices[name] if c != value]
            open_choices[name] = left
            texts[name] = " or ".join(f"{name} == {c!r}" for c in left)
        elif text.endswith(" is None"):
            texts[text] = text if holds else f"{text.removesuffix('None')}not None"
        else:
            texts[text] = text if holds else f"not {text if condition.op == 'sym' else f'({text})'}"
    return tuple(t for t in texts.values() if t)


def as_written(write: Callable[Concatenate[Operation, P], R]) -> Callable[Concatenate[Operation, P], R]:
    """What writes an operation, with its sums in the order of its spec."""

    @wraps(write)
    def written(operation: Operation, /, *args: P.args, **named: P.kwargs) -> R:
        with in_order(operation.program.orders):
            return write(operation, *args, **named)

    return written
