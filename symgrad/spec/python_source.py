r"""Specs that are written as Python functions under `@symgrad.op`. Their source is read and never run.

Parameters are tensors, keyword-only ones, and those of a type such as `float`, hyperparameters; assignments are
intermediates; what is returned are the outputs; the docstring is the documentation. Each becomes a node of the tree
that YAML becomes, with its place in the Python file, so that everything after that is the same: keys, checks, messages
with line and caret.

| in the function                                  | in YAML |
| `x`, `x: symgrad.tensor`, `x: torch.Tensor`      | `x:` under `tensors` |
| `x: symgrad.constant`                            | `x: {grad: false}` |
| `n: symgrad.integer`, `m: symgrad.boolean`       | `n: {dtype: int}`, `m: {dtype: bool}` |
| `x: symgrad.tensor[..., "C"]`                    | `x: {shape: [..., C]}` |
| `x: symgrad.tensor(domain="(0, oo)", doc="...")` | `x: {domain: "(0, oo)", doc: ...}`; also `tensor["N"](...)` |
| `bias=0`                                         | `bias: {default: 0}`, which may be `None` at the call |
| `*, delta: float = 1.0`, also without the star   | `delta: {type: float, default: 1.0}` under `hyperparameters` |
| `*, mode: Literal["a", "b"] = "a"`               | `mode: {choices: [a, b], default: a}` |
| `*, p: symgrad.hyperparameter(type=..., ...)`    | `p: {type: ..., ...}` |
| `Annotated[Tensor, one of these]`                | the same, for type checkers |
| `Optional[one of these]`, `one of these \| None` | the same |
| `ALPHA = 1.67` at the top of the file            | `ALPHA: 1.67` under `let`, where it is read |
| `x = x / y`, once more or of an argument          | `x_1: x / y` under `let`, and `x_1` where it is read after that |
| `a, b = x, y`; `top, at = torch.max(x, -1)`      | `a: x` and `b: y`; `top: torch.max(x, -1)[0]` under `let` |
| `n, c = x.shape`, where x has no shape yet       | `x: {shape: [n, c]}`; `*_, c = x.size()` is `[..., c]` |
| `with torch.no_grad(): a = x`                     | `a: detach(x)` under `let` |
| `@symgrad.op(module={...}, options={...})`       | further keys of a spec, as literals |
"""

from __future__ import annotations

import ast
from collections.abc import Mapping as Mapping_
from collections.abc import Sequence
from types import MappingProxyType
from typing import TypeGuard

from symgrad.errors import Location, SpecError
from symgrad.spec.model import Spec
from symgrad.spec.python_arguments import ArgumentNodes
from symgrad.spec.python_names import (
    Assigned,
    Function,
    aliases,
    assigned,
    constants_of,
    decorated,
    meanings,
    read_in,
    resolved,
    shape_of,
    told_apart,
)
from symgrad.spec.python_nodes import Exact
from symgrad.spec.python_shapes import unpacked_shapes
from symgrad.spec.yaml_source import Document, Entry, Mapping, Node, Scalar, SourceText
from symgrad.spec.yaml_source import Sequence as List

__all__ = ["read_function", "read_functions"]

_OF_THE_FUNCTION = frozenset({"op", "tensors", "hyperparameters", "let", "outputs"})


def read_functions(text: str, path: str) -> list[Spec | SpecError]:
    """The specs that a Python file writes, in its order, each or its mistakes. Raises SpecError where there is none."""
    source = SourceText(text.removeprefix("\ufeff"), path)
    module = _parsed(source)
    readers = [_Reader(source, module, function, decorator) for function, decorator in decorated(module)]
    if not readers:
        message = "no function under @symgrad.op in this file"
        raise SpecError([source.mistake(Location(1, 1), "", message)])
    return [reader.spec_or_mistakes() for reader in readers]


def read_function(text: str, path: str, name: str, line: int, outside: Mapping_[str, str] | None = None) -> Spec:
    """The spec of the function `name` whose decorators or `def` start at `line`. Raises SpecError.

    `outside` are the dotted names of what names are bound to that the text may not bind.
    """
    source = SourceText(text, path)
    module = _parsed(source)
    for function, decorator in decorated(module, every=True):
        first = min([function.lineno, *(d.lineno for d in function.decorator_list)])
        if function.name == name and first <= line <= function.lineno:
            return _Reader(source, module, function, decorator, outside or {}).spec()
    raise SpecError([source.mistake(Location(line, 1), "", f"the source of {name!r} is not here any more")])


def _parsed(source: SourceText) -> ast.Module:
    try:
        return ast.parse(source.text)
    except SyntaxError as error:
        place = Location(error.lineno or 1, max(1, error.offset or 1))
        raise SpecError([source.mistake(place, "", f"not valid Python: {error.msg}")]) from None
    except (ValueError, RecursionError, MemoryError):
        raise SpecError([source.mistake(Location(1, 1), "", "not valid Python")]) from None


class _Reader(ArgumentNodes):
    """Makes one function the tree of a spec, noting every mistake on the way."""

    def __init__(
        self,
        source: SourceText,
        module: ast.Module,
        function: Function,
        decorator: ast.expr | None,
        outside: Mapping_[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(source)
        self._outside = outside
        self._module = module
        self._function = function
        self._decorator = decorator
        self._dims: set[str] = set()  # that the body names
        self._detached: set[int] = set()  # values without a gradient

    def spec_or_mistakes(self) -> Spec | SpecError:
        """The spec, or what is wrong with it."""
        try:
            return self.spec()
        except SpecError as error:
            return error

    def spec(self) -> Spec:
        """The spec. Raises SpecError."""
        from symgrad.spec.load import spec_in  # which reads Python files by this module

        root = self._mapping(self._function, self._keys())
        return spec_in(Document(self._source, root, tuple(self._mistakes)))

    # ------------------------------------------------------------------------------------ the spec
    def _keys(self) -> dict[str, Entry]:
        function = self._function
        if isinstance(function, ast.AsyncFunctionDef):
            self._fault(function, function.name, "an operation is no coroutine; leave out 'async'")
        decorators = self._function.decorator_list
        below = decorators[decorators.index(self._decorator) + 1 :] if self._decorator in decorators else decorators
        for other in below:
            self._fault(other, "", "a decorator below @symgrad.op is not run; leave it out")
        function.body = self._without_blocks(function.body)
        inside = any(function in c.body for c in ast.walk(self._module) if isinstance(c, ast.ClassDef))
        if inside and [a.arg for a in function.args.args][:1] in (["self"], ["cls"]):
            self._fault(function, function.name, "an operation is no method; define it outside of the class")
        own = self._decorator_keys()
        name = own.pop("name", None)
        keys = self._entry("op", function, self._word(function.name, function) if name is None else name.value)
        keys |= self._documentation()
        keys |= {key: own.pop(key) for key in ("summary", "reference", "doc") if key in own}
        tensors, hyperparameters = self._parameters(function.args)
        tensors |= self._with_unpacked_shapes(tensors)
        keys |= self._entry("tensors", function, self._mapping(function, tensors))
        if self._dims:  # names that are unpacked bring no shapes in line, for torch does not know them
            own |= self._entry("options", function, self._aligned_by_position(own.get("options")))
        if hyperparameters:
            keys |= self._entry("hyperparameters", function, self._mapping(function, hyperparameters))
        let, outputs = self._body()
        if let.entries:
            keys |= self._entry("let", function, let)
        keys |= self._entry("outputs", function, self._with_flags(outputs, own.pop("no_grad", None)))
        return {**keys, **own}

    def _aligned_by_position(self, options: Entry | None) -> Node:
        given = self._mapping(self._function, {}) if options is None else options.value
        align = self._entry("align", self._function, self._word("positions", self._function))
        return Mapping({**align, **given.entries}, given.location) if isinstance(given, Mapping) else given

    def _with_flags(self, outputs: Mapping, flagged: Entry | None) -> Mapping:
        """`no_grad=["mask"]` marks outputs as not differentiable."""
        if flagged is None or not isinstance(flagged.value, List):
            return outputs
        entries = dict(outputs.entries)
        for item in flagged.value.items:
            if isinstance(item, Scalar) and item.text in entries:
                entry = entries[item.text]
                no = Entry(item, Exact("false", "", self._source, item.start, item.end, item.start))
                both = {"expr": Entry(entry.key, entry.value), "grad": no}
                entries[item.text] = Entry(entry.key, Mapping(both, entry.location))
            else:
                self._mistakes.append(self._source.mistake(item.location, "no_grad", "names no output"))
        return Mapping(entries, outputs.location)

    def _decorator_keys(self) -> dict[str, Entry]:
        if not isinstance(self._decorator, ast.Call):
            return {}
        if self._decorator.args:
            self._fault(
                self._decorator.args[0], "", "keys of the operation are given by name: @symgrad.op(module={...})"
            )
        found: dict[str, Entry] = {}
        for keyword in self._decorator.keywords:
            if keyword.arg is None or keyword.arg in _OF_THE_FUNCTION:
                self._fault(keyword.value, keyword.arg or "", "is what the function itself says")
                continue
            value = self._literal_or_fault(keyword.value, keyword.arg)
            if value is not None:
                found |= self._entry(keyword.arg, keyword, value)
        return found

    def _documentation(self) -> dict[str, Entry]:
        """The first paragraph of the docstring, one that starts with 'Reference:', and the rest."""
        text = ast.get_docstring(self._function)
        if not text:
            return {}
        node = self._function.body[0]
        paragraphs = [" ".join(part.split()) for part in text.split("\n\n") if part.strip()]
        references = [p for p in paragraphs if p.startswith("Reference:")]
        rest = [p for p in paragraphs if p not in references]
        found = {
            "summary": "".join(rest[:1]),
            "reference": "".join(references[:1]).partition(":")[2].strip(),
            "doc": "\n\n".join(rest[1:]),
        }
        return {key: Entry(self._word(key, node), self._exact(t, node, '"')) for key, t in found.items() if t}

    # ------------------------------------------------------------------------------------ body
    def _with_unpacked_shapes(self, tensors: Mapping_[str, Entry]) -> dict[str, Entry]:
        """The tensors whose shapes the body unpacks, with these, and the body without that."""
        keys = {n: entry.value.entries if isinstance(entry.value, Mapping) else {} for n, entry in tensors.items()}
        found: dict[str, Entry] = {}
        for statement, name, dims in unpacked_shapes(self._function, {n for n in keys if "shape" in keys[n]}):
            shape = List(tuple(self._word(dim, statement) for dim in dims), self._location(statement))
            entries = {**keys[name], **self._entry("shape", statement, shape)}
            found[name] = Entry(tensors[name].key, self._mapping(statement, entries))
            self._function.body.remove(statement)
            self._dims |= set(dims)
        return found

    def _without_blocks(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements with those under `with torch.no_grad()` among them, whose values are detached."""
        found: list[ast.stmt] = []
        for statement in body:
            if not _is_no_grad(statement):
                found.append(statement)
                continue
            for inner in statement.body:
                self._detached |= {id(value) for _, value, _ in assigned(inner)}
                if isinstance(inner, ast.Return):
                    self._fault(
                        inner, "", "nothing is returned without a gradient; write detach(...), or no_grad=[...]"
                    )
                else:
                    found.append(inner)
        return found

    def _formula(self, node: ast.expr, part: int | None = None, function: str = "") -> Scalar:
        return super()._formula(node, part, "detach" if id(node) in self._detached else function)

    def _body(self) -> tuple[Mapping, Mapping]:
        """The intermediates and the outputs."""
        body = self._function.body
        statements = body[1:] if ast.get_docstring(self._function) is not None else body
        let: dict[str, Assigned] = {}
        returned: ast.Return | None = None
        for unset in told_apart(self._function):
            self._fault(unset, "", f"{unset.id!r} has no value yet")
        for statement in statements:
            targets = assigned(statement)
            if returned is not None:
                self._fault(statement, "", "nothing stands after 'return'")
            elif isinstance(statement, ast.Return):
                returned = statement
            elif not targets:
                self._fault(statement, "", _statement_fault(statement))
            elif returned is None:
                let |= {name.id: (name, value, part) for name, value, part in targets}
        if returned is None or returned.value is None:
            if not self._mistakes:
                self._fault(self._function, "outputs", "the function returns nothing; end it with 'return'")
            return self._mapping(self._function, {}), self._mapping(self._function, {})
        told = aliases(let)
        let = {name: entry for name, entry in let.items() if name not in told}
        values = [*(value for _, value, _ in let.values()), returned.value]
        for node in (n for value in values for n in ast.walk(value)):
            if isinstance(node, ast.Name):
                node.id = told.get(node.id, node.id)
        meant, around = meanings(self._module, self._function, self._outside)
        declared = list(ast.walk(self._function.args))
        local = {a.arg for a in declared if isinstance(a, ast.arg)} | set(let)
        local |= {str(c.value) for c in declared if isinstance(c, ast.Constant)} | self._dims
        unread = {n for n, (_, value, _) in let.items() if shape_of(value) is not None} - read_in(values)
        let = {**self._constants(values, let, local | around), **{n: let[n] for n in let if n not in unread}}
        values = [*(value for _, value, _ in let.values()), returned.value]
        for name, why in resolved(values, local | set(let), meant, around):
            self._fault(name, "", why)
        outputs = self._outputs(returned.value, let)
        inner = {
            name: Entry(self._word(name, at), self._formula(value, part)) for name, (at, value, part) in let.items()
        }
        return self._mapping(self._function, inner), self._mapping(returned, outputs)

    def _constants(
        self, values: Sequence[ast.expr], let: Mapping_[str, Assigned], hidden: set[str]
    ) -> Mapping_[str, Assigned]:
        """The constants of the module that the function reads by names that nothing else has."""
        found = constants_of(self._module, read_in(values) - hidden)
        for name in found.keys() & let.keys():
            self._fault(let[name][0], f"let.{name}", f"constants of the module are made of {name!r}; use another name")
        return found

    def _outputs(self, value: ast.expr, let: dict[str, Assigned]) -> dict[str, Entry]:
        """By their names: an intermediate that nothing else reads is the output itself."""
        values: Sequence[ast.expr] = value.elts if isinstance(value, ast.Tuple) else [value]
        read = [n.id for _, v, _ in let.values() for n in ast.walk(v) if isinstance(n, ast.Name)]
        read += [n.id for v in values for n in ast.walk(v) if isinstance(n, ast.Name)]
        found: dict[str, Entry] = {}
        taken = {*let, *(a.arg for a in ast.walk(self._function.args) if isinstance(a, ast.arg))}
        for k, item in enumerate(values):
            if isinstance(item, ast.Name) and item.id in let and read.count(item.id) == 1:
                at, formula, part = let.pop(item.id)
                found[item.id] = Entry(self._word(item.id, at), self._formula(formula, part))
                continue
            name = item.id.removesuffix("_out") if isinstance(item, ast.Name) else ""
            wanted = f"{name}_out" if name else "y" if len(values) == 1 else f"y{k + 1}"
            while wanted in taken or wanted in found:
                wanted += "_"
            found[wanted] = Entry(self._word(wanted, item), self._formula(item))
        return found


def _is_no_grad(statement: ast.stmt) -> TypeGuard[ast.With]:
    """Whether a statement is `with torch.no_grad():`."""
    if not isinstance(statement, ast.With) or len(statement.items) != 1 or statement.items[0].optional_vars:
        return False
    call = statement.items[0].context_expr
    return isinstance(call, ast.Call) and not call.args and ast.unparse(call.func) in ("torch.no_grad", "no_grad")


_STATEMENTS: dict[type[ast.stmt], str] = {
    ast.If: "a statement 'if' is not part of the language; write where(condition, a, b), or a if condition else b",
    ast.For: "loops are not part of the language; write sum(...), or each step by name",
    ast.While: "loops are not part of the language",
    ast.AugAssign: "nothing is changed in place; write x = x + y",
    ast.Assign: "names are assigned one by one, or as in a, b = x, y",
    ast.With: "of blocks there is 'with torch.no_grad():'",
    ast.FunctionDef: "a function inside of an operation is not part of the language",
    ast.Import: "an import stands above the function",
    ast.ImportFrom: "an import stands above the function",
    ast.Raise: "arguments are checked by their domains and choices",
    ast.Assert: "arguments are checked by their domains and choices",
}


def _statement_fault(statement: ast.stmt) -> str:
    return _STATEMENTS.get(type(statement), "an operation consists of assignments and a 'return'")
