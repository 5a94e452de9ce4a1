"""An operation as a Python object: callable at once, with its module, its formula and its derivatives."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, overload

from symgrad.errors import SymgradError, suggestion
from symgrad.spec import Spec
from symgrad.spec.write import as_yaml

if TYPE_CHECKING:
    import sympy

    from symgrad.explain.derivation import Derivation
    from symgrad.symbolic.certify import Certificate
    from symgrad.ways.sources import Source

__all__ = ["Operation", "log_prob", "op"]

_KEYS = frozenset(
    {"tensors", "hyperparameters", "let", "outputs", "gradients", "module", "options", "test"}
    | {"summary", "reference", "doc"}
)


class Operation:
    """What `symgrad.op` gives.

    Calling it calls the generated function. Generated names are attributes (`op.Swish`, `op.SwishFunction`), all
    of them in `module`. It is generated at the first use. A pickle of it, read in another process, is the operation
    of the same spec there, and one object however often it is read.
    """

    spec: Spec
    """The spec, whichever way it came in."""

    def __init__(self, spec: Spec, function: Callable[..., Any] | None = None) -> None:
        """Use `op` instead."""
        self.spec = spec
        self.__name__ = spec.op
        self.__qualname__ = function.__qualname__ if function else spec.op
        self.__module__ = function.__module__ if function else __name__
        self.__doc__ = spec.summary or f"The operation {spec.op}."
        self._symbols: Mapping[str, sympy.Symbol] = {}

    @cached_property
    def module(self) -> ModuleType:
        """The generated module, imported from memory."""
        from symgrad.notebook import load

        if "torch._dynamo" not in sys.modules:
            return load(self.spec)
        with ThreadPoolExecutor(1) as apart:  # torch.compile may follow the first call, and follows but its own thread
            return apart.submit(load, self.spec).result()

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:  # a hyperparameter may be called `self`
        """The generated function: tensors by position, hyperparameters by keyword."""
        return self._function(*args, **kwargs)

    @cached_property
    def _function(self) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(self.module, self.spec.op)
        return function

    def __getattr__(self, name: str) -> Any:
        if name == "__signature__":
            from inspect import signature

            return signature(self._function)
        if name.startswith("_") or name not in dir(self.module):
            raise AttributeError(f"the operation {self.spec.op!r} has no attribute {name!r}", name=name, obj=self)
        return getattr(self.module, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.module.__all__})

    # ------------------------------------------------------------------------------------ mathematics
    @property
    def formula(self) -> Any:
        """The formula as a SymPy expression; by output, where there are several."""
        from symgrad.symbolic.display import formulas

        return _single(formulas(self.spec, self._symbols))

    @property
    def derivatives(self) -> Any:
        """The partial derivatives as SymPy expressions by tensor, looked up by symbol or name; by output, where there
        are several.

        Conventions at kinks are PyTorch's. Of an operation that is not pointwise these are gradients, in terms of
        `grad_<output>`, where tensor operations are undefined functions.
        """
        from symgrad.symbolic.display import derivatives

        return _single(derivatives(self.spec, self._symbols))

    # ------------------------------------------------------------------------------------ files and reports
    @property
    def yaml(self) -> str:
        """The spec as the text of a YAML file."""
        return as_yaml(self.spec)

    @cached_property
    def derivation(self) -> Derivation:
        """How it was compiled: rules, candidates with their errors, what is saved."""
        from symgrad.pipeline import compile_spec

        return compile_spec(self.spec).derivation

    def explain(self, *, prove: bool = True) -> None:
        """Print how it is compiled, and why: what `symgrad explain` shows, with `prove` also what is proven."""
        from symgrad.explain.derive import certified
        from symgrad.explain.show import show

        found = certified(self.derivation, self.prove()) if prove else self.derivation
        show(found, op=self.spec.op, path=self.spec.path, summary=self.spec.summary)

    def prove(self) -> Certificate:
        """What `symgrad prove` finds: a verdict on every value, gradient and tangent, which it shows when printed."""
        from symgrad.compiler.compile import compile_operation
        from symgrad.parse import parse_formulas
        from symgrad.symbolic.certify import certificate

        return certificate(compile_operation(parse_formulas(self.spec)))

    def write(self, folder: str | PathLike[str], *, force: bool = False) -> list[Path]:
        """Write the files that `symgrad gen` writes into `folder`, and return their paths.

        Raises FileError for a file that was edited by hand, unless `force` is true.
        """
        from symgrad.files import Folder, render, spec_hash
        from symgrad.pipeline import compile_spec

        place = Folder(Path(folder))
        compiled = compile_spec(self.spec, package=place.package)
        source = spec_hash(self.spec, place.package)
        texts = render(compiled.files, spec_path=self.spec.path, source=source, shared=compiled.shared)
        return [state.path for state in place.update(texts, compiled.shared, force=force)]

    # ------------------------------------------------------------------------------------ how it shows itself
    def __repr__(self) -> str:
        formulas = "; ".join(f"{o.name} = {o.formula.line}" for o in self.spec.outputs)
        return f"<symgrad.op {self.spec.op}: {formulas}>"

    def _repr_latex_(self) -> str:
        from symgrad.symbolic.display import latex

        return latex(self.spec, self._symbols)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """For notebooks: formula and derivatives as LaTeX, and as a text."""
        return {"text/latex": self._repr_latex_(), "text/plain": repr(self)}

    def __reduce__(self) -> str | tuple[Any, ...]:
        home = sys.modules.get(self.__module__)
        if home is not None and getattr(home, self.__qualname__, None) is self:  # found by name, as functions are
            return str(self.__qualname__)
        return _of_yaml, (self.yaml, self.spec.path)


_known: dict[tuple[str, str], Operation] = {}


def _of_yaml(text: str, path: str) -> Operation:
    """The operation of a canonical text; one object for each."""
    from symgrad.spec import parse_spec

    return _known.get((text, path)) or _known.setdefault((text, path), Operation(parse_spec(text, path)))


def _interned(spec: Spec) -> Operation:
    key = as_yaml(spec), spec.path
    return _known.get(key) or _known.setdefault(key, Operation(_checked(spec)))  # one, whichever thread asks


def _checked(spec: Spec) -> Spec:
    """The spec, whose formulas have been read. Raises SpecError."""
    from symgrad.parse import parse_formulas

    return parse_formulas(spec).spec


def _single(values: Mapping[str, Any]) -> Any:
    return next(iter(values.values())) if len(values) == 1 else values


@overload
def op(source: Callable[..., Any], /) -> Operation: ...
@overload
def op(source: Source, /, **keys: Any) -> Operation: ...
@overload
def op(  # no output is among the keys: a decorator
    *,
    name: str = ...,
    module: Mapping[str, Any] = ...,
    options: Mapping[str, Any] = ...,
    gradients: Mapping[str, Any] = ...,
    tensors: Mapping[str, Any] = ...,
    hyperparameters: Mapping[str, Any] = ...,
    let: Mapping[str, Any] = ...,
    test: Mapping[str, Any] = ...,
    no_grad: list[str] = ...,
    summary: str = ...,
    reference: str = ...,
    doc: str = ...,
) -> Callable[[Callable[..., Any]], Operation]: ...
@overload
def op(**keys: Any) -> Operation: ...


def op(source: Any = None, /, **keys: Any) -> Any:
    """An operation, from whatever writes its formula.

    - ``op("swish", y=x / (1 + sympy.exp(-beta*x)), module={"parameters": {"beta": 1.0}})``: outputs by name, as SymPy
      expressions or texts. ``tensors``, ``hyperparameters``, ``let``, ``gradients``, ``module``, ``options``, ``test``,
      ``summary``, ``reference`` and ``doc`` are the keys of a YAML spec; any other keyword is an output. Symbols are
      tensors, in the order in which the formulas read them, unless they are named as hyperparameters; what they
      assume becomes their domain.
    - ``op("x * sigmoid(beta * x)")``: a formula as a text. ``op("specs/swish.yaml")``: a file.
    - ``op(expression)``, ``op(mapping)``, ``op(spec)``.
    - ``@op`` and ``@op(module=..., options=...)``: a Python function, whose source is read and never run.

    Raises SpecError with every mistake, and TypeError for a keyword that is none of these.
    """
    from symgrad.ways.mapping import is_sympy

    if callable(source) and not isinstance(source, Operation) and not is_sympy(source):
        return _decorated(source, keys)
    if source is None and not set(keys) - (_KEYS - {"outputs"}) - {"name", "no_grad"}:
        return lambda function: _decorated(function, keys)
    for key, value in keys.items():
        if key not in _KEYS and isinstance(value, Mapping) and "expr" not in value:  # no output has other keys
            raise TypeError(f"unknown keyword {key!r}{suggestion(key, _KEYS)}")
    outputs = {
        **(keys.pop("outputs", None) or {}),
        **{k: keys.pop(k) for k in [*keys] if k not in _KEYS and k != "name"},
    }
    name = keys.pop("name", None)
    if outputs:
        return _of_parts(name or source or "formula", outputs, keys)
    from symgrad.ways.sources import spec_of

    if keys or name is not None:
        from symgrad.ways.mapping import output_name

        return _of_parts(name or "formula", {output_name(source): source}, keys)
    found = _interned(spec_of(source))
    found._symbols = _symbols_in([source])
    return found


def _of_parts(name: object, outputs: Mapping[str, Any], keys: Mapping[str, Any]) -> Operation:
    from symgrad.ways.mapping import spec_of_mapping

    if not isinstance(name, str):
        raise TypeError(f"the first argument is the name of the operation, not {type(name).__name__}")
    found = _interned(spec_of_mapping({"op": name, **keys, "outputs": outputs}))
    found._symbols = _symbols_in([*outputs.values(), *dict(keys.get("let") or {}).values()])
    return found


def _decorated(function: Callable[..., Any], keys: Mapping[str, Any]) -> Operation:
    from symgrad.ways.sources import spec_of_function

    del keys  # they are read from the source, too
    if not hasattr(function, "__code__"):
        raise SymgradError(
            f"@symgrad.op decorates a function that is written under it, not {type(function).__name__}; "
            "other decorators stand above it"
        )
    return Operation(_checked(spec_of_function(function)), function)


def _symbols_in(values: list[Any]) -> dict[str, sympy.Symbol]:
    """The user's own SymPy symbols by name, which formulas and derivatives are shown in."""
    from symgrad.ways.mapping import is_sympy

    expressions = [v for v in values if is_sympy(v) and hasattr(v, "free_symbols")]
    if not expressions:
        return {}
    from symgrad.symbolic.declare import free_symbols

    return {name: item for item, name in free_symbols(expressions).items() if getattr(item, "is_Symbol", False)}


def log_prob(name: str, variable: Any, x: Any = None, **keys: Any) -> Operation:
    """The logarithm of the density of a distribution of `sympy.stats`, as an operation.

    `variable` is a random symbol such as ``sympy.stats.Gamma("X", k, theta)``, `x` the symbol of the value (by default
    a real symbol `x`). The symbols of its parameters are tensors, or hyperparameters where `keys` say so. Outside of
    the support the value is -oo. Raises SpecError where the density has no closed form here.
    """
    from symgrad.symbolic.stats import log_density

    tensors, formula = log_density(variable, x, keys.get("hyperparameters") or ())
    keys.setdefault("summary", f"Log-density of sympy.stats.{type(variable.pspace.distribution).__name__}.")
    return _of_parts(name, {"log_p": formula}, {"tensors": tensors, **keys})
