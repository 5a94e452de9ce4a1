"""Arguments of a Python function, with their annotations and defaults, as tensors and hyperparameters of a spec."""

from __future__ import annotations

import ast
from collections.abc import Callable

from symgrad.errors import shown
from symgrad.spec.python_nodes import NotLiteral, PythonNodes
from symgrad.spec.yaml_source import Entry, Node
from symgrad.spec.yaml_source import Sequence as List

__all__ = ["ArgumentNodes"]

_KINDS = {"tensor": "", "constant": "grad", "integer": "int", "boolean": "bool"}
_TORCH = frozenset({"Tensor", "torch.Tensor"})
_PLAIN_TYPES = frozenset({"float", "int", "bool", "str"})


class ArgumentNodes(PythonNodes):
    """Makes nodes of arguments."""

    def _parameters(self, arguments: ast.arguments) -> tuple[dict[str, Entry], dict[str, Entry]]:
        """The tensors and the hyperparameters."""
        for extra in filter(None, (arguments.vararg, arguments.kwarg)):
            self._fault(extra, "", "an operation has its arguments by name; write each of them")
        tensors: dict[str, Entry] = {}
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
        numbers: list[tuple[ast.arg, ast.expr | None]] = []  # hyperparameters among them, which follow the tensors
        hyperparameters: dict[str, Entry] = {}
        for argument, default in zip(positional, defaults, strict=True):
            if self._is_number(argument):
                numbers.append((argument, default))
                continue
            if numbers:
                self._fault(argument, f"tensors.{argument.arg}", "a tensor stands before the hyperparameters")
            tensors |= self._entry(argument.arg, argument, self._tensor(argument, default))
        named = list(zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True))
        for argument, default in [*numbers, *named]:
            hyperparameters |= self._entry(argument.arg, argument, self._hyperparameter(argument, default))
        return tensors, hyperparameters

    def _is_number(self, argument: ast.arg) -> bool:
        """Whether an argument has the type of a hyperparameter, such as `float` or `Literal["a", "b"]`."""
        annotation = None if argument.annotation is None else self._resolved(argument.annotation)
        of = annotation.value if isinstance(annotation, ast.Subscript) else annotation
        return of is not None and ast.unparse(of).rpartition(".")[2] in {*_PLAIN_TYPES, "Literal"}

    def _annotated(
        self, argument: ast.arg, where: str, read: Callable[[ast.expr], dict[str, Entry]]
    ) -> dict[str, Entry]:
        """What the annotation of an argument says, if it has one."""
        if argument.annotation is None:
            return {}
        try:
            return read(argument.annotation)
        except NotLiteral as error:
            self._fault(error.node, where, str(error))
            return {}

    def _default(self, default: ast.expr | None, where: str) -> dict[str, Entry]:
        value = None if default is None else self._literal_or_fault(default, where)
        return {} if default is None or value is None else self._entry("default", default, value)

    def _tensor(self, argument: ast.arg, default: ast.expr | None) -> Node:
        where = f"tensors.{argument.arg}"
        entries = self._annotated(argument, where, self._tensor_keys)
        if _is_none(default):
            self._fault(default or argument, where, _NO_VALUE.format(argument.arg))
        else:
            entries |= self._default(default, where)
        return self._mapping(argument, entries) if entries else self._nothing(argument)

    def _tensor_keys(self, annotation: ast.expr) -> dict[str, Entry]:
        """What an annotation says of a tensor. Raises NotLiteral."""
        annotation = self._resolved(annotation)
        if isinstance(annotation, ast.Call):
            entries = self._tensor_keys(annotation.func)
            if annotation.args:
                raise NotLiteral(annotation.args[0], 'keys of a tensor are given by name, such as domain="(0, oo)"')
            return {**entries, **self._keywords(annotation)}
        if isinstance(annotation, ast.Subscript):
            dims = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
            shape = List(tuple(map(self._literal, dims)), self._location(annotation.slice))
            return self._tensor_keys(annotation.value) | self._entry("shape", annotation, shape)
        name = ast.unparse(annotation)
        kind = _KINDS.get(name.rpartition(".")[2])
        if name in _TORCH or kind == "":
            return {}
        if kind == "grad":
            return self._entry("grad", annotation, self._word("false", annotation))
        if kind is not None:
            return self._entry("dtype", annotation, self._word(kind, annotation))
        raise NotLiteral(
            annotation,
            f"{shown(name)} is no kind of tensor: symgrad.tensor, .constant, .integer, .boolean or torch.Tensor",
        )

    def _resolved(self, annotation: ast.expr) -> ast.expr:
        """What is meant by `Annotated[Tensor, this]`, by `Optional[this]`, `this | None`, and by quotes around it."""
        if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr) and _is_none(annotation.right):
            return self._resolved(annotation.left)
        if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value).endswith("Optional"):
            return self._resolved(annotation.slice)
        if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value).endswith("Annotated"):
            parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
            return self._resolved(parts[-1])
        if not isinstance(annotation, ast.Constant) or not isinstance(annotation.value, str):
            return annotation
        try:
            quoted = ast.parse(annotation.value, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return annotation
        for node in ast.walk(quoted):  # all of it stands where the text does
            ast.copy_location(node, annotation)
        return self._resolved(quoted)

    def _keywords(self, call: ast.Call) -> dict[str, Entry]:
        found: dict[str, Entry] = {}
        for keyword in call.keywords:
            if keyword.arg is None:
                raise NotLiteral(keyword.value, "keys are given by name")
            name = isinstance(keyword.value, ast.Name) and keyword.value.id in _PLAIN_TYPES
            value = self._word(ast.unparse(keyword.value), keyword.value) if name else self._literal(keyword.value)
            found |= self._entry(keyword.arg, keyword, value)
        return found

    def _hyperparameter(self, argument: ast.arg, default: ast.expr | None) -> Node:
        where = f"hyperparameters.{argument.arg}"
        entries = self._annotated(argument, where, self._hyperparameter_keys)
        return self._mapping(argument, entries | self._default(default, where))

    def _hyperparameter_keys(self, annotation: ast.expr) -> dict[str, Entry]:
        """What an annotation says of a hyperparameter. Raises NotLiteral."""
        annotation = self._resolved(annotation)
        name = ast.unparse(annotation)
        if name in _PLAIN_TYPES:
            return self._entry("type", annotation, self._word(name, annotation))
        if isinstance(annotation, ast.Call) and ast.unparse(annotation.func).endswith("hyperparameter"):
            if annotation.args:
                raise NotLiteral(annotation.args[0], "keys are given by name, such as type=float")
            return self._keywords(annotation)
        if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value).endswith("Literal"):
            values = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
            choices = List(tuple(map(self._literal, values)), self._location(annotation.slice))
            return self._entry("choices", annotation, choices)
        raise NotLiteral(
            annotation, f"{shown(name)} is no type of a hyperparameter: float, int, bool, str, Literal[...]"
        )


_NO_VALUE = "a tensor that may be None has as its default the value that stands in for it, such as {}=0"


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
