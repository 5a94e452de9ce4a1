"""A Spec from a mapping whose formulas are texts, numbers or SymPy expressions.

The mapping has the keys of a YAML spec. It is written as the text of one, which is then read: what comes in this way is
what stands in the file that a user would commit, and has the same mistakes. Tensors that are not declared are the names
that nothing else declares, in the order in which the formulas read them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any

from symgrad.errors import Location, Mistake, SpecError, shown
from symgrad.spec import Spec, parse_spec
from symgrad.spec.names import normal
from symgrad.spec.write import yaml_text

__all__ = ["is_sympy", "output_name", "spec_of_formula", "spec_of_mapping"]

_ORDER = ("op", "summary", "reference", "doc", "tensors", "hyperparameters", "let", "outputs", "gradients")
_FORMULAS = ("let", "outputs", "gradients")
_MODULES = frozenset({"torch", "sympy", "sp", "math", "numpy", "np", "jnp", "S"})  # no tensors, where they stand alone


def is_sympy(value: object) -> bool:
    """Whether a value is SymPy's, without importing SymPy for it."""
    return any(str(base.__module__).partition(".")[0] == "sympy" for base in type(value).__mro__)


def spec_of_formula(formula: object) -> Spec:
    """The spec of a single formula, whose output is `y`, or another name where the formula reads that."""
    return spec_of_mapping({"op": "formula", "outputs": {output_name(formula): formula}})


def output_name(formula: object) -> str:
    """A name for the output of a formula that has none."""
    if is_sympy(formula):
        try:
            read = {str(s) for s in getattr(formula, "free_symbols", ())}
        except RecursionError:  # of SymPy's own: a mistake of the formula, which is told where that is read
            read = set()
    else:
        read = set(_names(formula)) if isinstance(formula, str) else set()
    return next(name for name in ("y", "out", "result", "value", "output_of_the_formula") if name not in read)


def spec_of_mapping(mapping: Mapping[str, Any]) -> Spec:
    """The spec that a mapping of the keys of a YAML spec writes. Raises SpecError."""
    op = str(mapping.get("op", "formula"))
    path = f"<{op}>"
    try:
        plain = _Reader(path, {str(k): v for k, v in mapping.items() if v is not None}).plain()
    except RecursionError:  # of SymPy's own
        message = "an expression is nested deeper than SymPy can read it; name parts of it under 'let'"
        raise SpecError([Mistake(path, Location(1, 1), "", message)]) from None
    return parse_spec(yaml_text(plain), path)


class _Reader:
    """Turns what stands under the keys into plain values."""

    def __init__(self, path: str, values: dict[str, Any]) -> None:
        self._path = path
        self._values = values
        self._formulas = {
            key: {name: _with_plain_indices(formula) for name, formula in _named(values.get(key)).items()}
            for key in _FORMULAS
        }
        self._texts: dict[tuple[str, str], str] = {}
        self._own: Mapping[str, dict[str, Any]] = {}  # what SymPy's symbols of tensors assume, by name

    def plain(self) -> dict[str, Any]:
        """The mapping with texts for formulas and with declarations for tensors. Raises SpecError."""
        hyperparameters = self._declarations("hyperparameters")
        tensors = self._declarations("tensors") if "tensors" in self._values else None
        expressions = [_expression(f) for section in self._formulas.values() for f in section.values()]
        if any(map(is_sympy, [*expressions, *self._keys_of("tensors"), *self._keys_of("hyperparameters")])):
            self._declare([e for e in expressions if is_sympy(e)], tensors, hyperparameters)
        for key, section in self._formulas.items():
            for name, formula in section.items():
                if not is_sympy(_expression(formula)):
                    self._texts[key, name] = _text(_expression(formula))
        known = {key: self._section(key) for key in _FORMULAS if self._formulas[key] or key in self._values}
        if tensors is None:
            tensors = {name: self._own.get(name) or None for name in self._free(hyperparameters)}
            if not tensors and self._texts:
                raise self._without_tensors()
        values = {**self._values, **known, "tensors": tensors}
        values.setdefault("op", self._path.strip("<>"))
        if hyperparameters:
            values["hyperparameters"] = hyperparameters
        values = _plain(values)
        return {key: values[key] for key in (*_ORDER, *(k for k in values if k not in _ORDER)) if key in values}

    def _keys_of(self, key: str) -> list[Any]:
        value = self._values.get(key)
        return list(value) if isinstance(value, Mapping | Iterable) and not isinstance(value, str) else []

    def _declarations(self, key: str) -> dict[str, Any]:
        """Declarations by name, from a mapping or from a list of names or symbols."""
        value = self._values.get(key)
        if value is None:
            return {}
        if isinstance(value, str):
            value = [value]
        pairs = value.items() if isinstance(value, Mapping) else [(item, None) for item in value]
        return {_name(item): _plain(keys) for item, keys in pairs}

    def _section(self, key: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, formula in self._formulas[key].items():
            text = self._texts[key, name]
            found[name] = {**_plain(formula), "expr": text} if isinstance(formula, Mapping) else text
        return found

    def _without_tensors(self) -> SpecError:
        from symgrad.parse.faults import FormulaError
        from symgrad.parse.text import read

        for (key, name), formula in self._texts.items():
            try:
                read(formula)
            except FormulaError as error:
                return self._fail(f"{key}.{name}", error.faults[0].message)
        text = "; ".join(self._texts.values())
        advice = ", which is what srepr prints; give the expression itself" if "Symbol('" in text else ""
        return self._fail(
            "tensors", f"an operation has at least one tensor, and no name is read in {shown(text)}{advice}"
        )

    def _fail(self, where: str, message: str) -> SpecError:
        return SpecError([Mistake(self._path, Location(1, 1), where, message)])

    # ------------------------------------------------------------------------------------ SymPy
    def _declare(self, expressions: list[Any], tensors: dict[str, Any] | None, hyperparameters: dict[str, Any]) -> None:
        """Write SymPy's expressions as texts, and complete declarations by what their symbols assume."""
        from symgrad.parse.formula import whole_formula
        from symgrad.symbolic.declare import booleans, declared, free_symbols, node_of
        from symgrad.symbolic.from_sympy import from_sympy
        from symgrad.symbolic.matrices import as_whole
        from symgrad.symbolic.to_sympy import NotConvertible

        given = [*self._keys_of("tensors"), *self._keys_of("hyperparameters")]
        try:
            items = free_symbols([*expressions, *(item for item in given if is_sympy(item))])
            flags = booleans(expressions)
            own = {
                name: declared(item, boolean=item in flags, hyperparameter=name in hyperparameters, within=expressions)
                for item, name in items.items()
            }
        except NotConvertible as error:
            raise self._fail("", str(error)) from None
        for name, keys in own.items():
            if name in hyperparameters:
                hyperparameters[name] = _hyperparameter(hyperparameters[name], keys)
            elif tensors is not None and name in tensors:
                tensors[name] = {**keys, **(tensors[name] or {})} or None
        self._own = {name: keys for name, keys in own.items() if name not in hyperparameters}
        complete = {**self._own, **{n: k or {} for n, k in (tensors or {}).items()}}
        nodes = {
            as_whole(item): node_of(
                name,
                hyperparameters[name] if name in hyperparameters else complete[name],
                hyperparameter=name in hyperparameters,
            )
            for item, name in items.items()
        }
        sizes = {str(d) for keys in complete.values() for d in keys.get("shape") or () if isinstance(d, str)}
        for key, section in self._formulas.items():
            for name, formula in section.items():
                expression = _expression(formula)
                if not is_sympy(expression):
                    continue
                extra = {s: node_of(s.name, {"type": "int"}, hyperparameter=True) for s in _sizes(expression, sizes)}
                try:
                    text = whole_formula(from_sympy(expression, {**extra, **nodes}), {*sizes, *items.values()})
                except NotConvertible as error:
                    raise self._fail(f"{key}.{name}", str(error)) from None
                if text is None:
                    raise self._fail(f"{key}.{name}", "the formula is too long; name some of its parts under 'let'")
                self._texts[key, name] = text

    # ------------------------------------------------------------------------------------ names
    def _free(self, hyperparameters: Mapping[str, Any]) -> list[str]:
        """The names that the formulas read and nothing declares, in the order in which they are read.

        Parameters of the module come last: the others are the arguments of its forward. An output that its own formula
        reads is a tensor of that name.
        """
        from symgrad.parse.constants import CONSTANTS, NO_NUMBERS

        declared = {*hyperparameters, *self._formulas["let"], *(CONSTANTS.keys() - self._own), *NO_NUMBERS}
        if any(self._own.values()):
            declared |= {str(d) for keys in self._own.values() for d in keys.get("shape") or () if isinstance(d, str)}
        outputs = {name for name in self._formulas["outputs"] if name not in _names(self._texts["outputs", name])}
        found: dict[str, None] = {}
        for key in _FORMULAS:
            cotangents = {f"grad_{name}" for name in self._formulas["outputs"]} if key == "gradients" else set()
            for name in self._formulas[key]:
                read = _names(self._texts[key, name])
                found |= dict.fromkeys(n for n in read if n not in declared | cotangents | outputs)
        module = self._values.get("module")
        parameters = module.get("parameters", {}) if isinstance(module, Mapping) else {}
        owned = {_name(item) for item in parameters}
        return sorted(found, key=lambda name: name in owned)


def _sizes(expression: Any, sizes: set[str]) -> list[Any]:
    return [s for s in expression.free_symbols if getattr(s, "is_Symbol", False) and s.name in sizes]


def _named(value: Any) -> dict[str, Any]:
    """A section of formulas by name; a single formula is `y`."""
    if value is None:
        return {}
    return {_name(name): formula for name, formula in value.items()} if isinstance(value, Mapping) else {"y": value}


def _name(item: Any) -> str:
    if not is_sympy(item):
        return normal(str(item))
    from symgrad.symbolic.declare import identifier

    return identifier(item)


def _with_plain_indices(formula: Any) -> Any:
    if isinstance(formula, Mapping):
        return {**formula, "expr": _with_plain_indices(formula.get("expr"))}
    if not is_sympy(formula):
        return formula
    from symgrad.symbolic.matrices import with_plain_indices

    return with_plain_indices(formula)


def _expression(formula: Any) -> Any:
    return formula.get("expr") if isinstance(formula, Mapping) else formula


def _text(formula: Any) -> str:
    return formula if isinstance(formula, str) else repr(_plain(formula))


def _names(text: str) -> list[str]:
    """The names that a formula reads, in its order; of what is no formula the words that may be names."""
    from symgrad.parse.faults import FormulaError
    from symgrad.parse.text import names_in, read, words_in

    try:
        known = names_in(text)
        tree = read(text).tree
    except FormulaError:  # which is reported when the spec is read
        return words_in(text)
    modules = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Attribute) and ast.unparse(n.value) in _MODULES}
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id in known and id(n) not in modules]
    return list(dict.fromkeys(n.id for n in sorted(nodes, key=lambda n: n.col_offset)))


def _hyperparameter(given: Any, own: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of a hyperparameter, or its default, and what its symbol assumes."""
    keys = dict(given) if isinstance(given, Mapping) else {} if given is None else {"default": given}
    if not keys.keys() & {"type", "choices"} and not isinstance(keys.get("default"), bool | str):
        keys["type"] = own.get("type", "float")
    domain = {} if "choices" in keys or "domain" not in own else {"domain": own["domain"]}
    return {**domain, **keys}


def _plain(value: Any) -> Any:
    """Numbers of SymPy and NumPy as Python's, names in place of symbols, at any depth."""
    if isinstance(value, Mapping):
        return {_name(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if is_sympy(value):
        if getattr(value, "is_Boolean", False) and value.args == ():
            return bool(value)
        if getattr(value, "is_number", False):
            return int(value) if value.is_Integer else float(value)
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "item"):  # a number of NumPy or torch
        return value.item()
    return _refused(value)


def _refused(value: Any) -> Any:
    raise TypeError(f"a spec holds texts, numbers, lists, mappings and SymPy's expressions, not {shown(repr(value))}")
