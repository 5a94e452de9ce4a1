"""What the parameters of a function under `@symgrad.op` may be annotated with.

Nothing of it does anything when the function is defined: the annotations are read from the source. Type checkers take
the plain names for torch.Tensor; shapes and keys stand inside of Annotated for them.

    x: symgrad.tensor                                 a tensor of any shape, which is differentiated
    x: symgrad.tensor["N", "C"]                       with named dimensions; 3 for a size, ... first for leading ones
    x: symgrad.tensor(domain="(0, oo)", doc="...")    with the keys that a tensor has in YAML; also tensor["N"](...)
    t: symgrad.constant                               never differentiated
    n: symgrad.integer, m: symgrad.boolean            of integers or truth values
    p: symgrad.hyperparameter(type=float, default=2.0, domain="(0, oo)")
    x: Annotated[torch.Tensor, symgrad.tensor["N"]]   a shape, for type checkers
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

__all__ = ["Annotation", "boolean", "constant", "hyperparameter", "integer", "tensor"]


class Annotation:
    """An annotation of a parameter; subscripts are its shape, and a call gives further keys."""

    def __init__(self, kind: str, shape: tuple[Any, ...] = (), keys: dict[str, Any] | None = None) -> None:
        self._kind = kind
        self._shape = shape
        self._keys = keys or {}

    def __getitem__(self, shape: Any) -> Annotation:
        return Annotation(self._kind, shape if isinstance(shape, tuple) else (shape,), self._keys)

    def __call__(self, **keys: Any) -> Annotation:
        return Annotation(self._kind, self._shape, {**self._keys, **keys})

    def __repr__(self) -> str:
        dims = f"[{', '.join('...' if d is ... else repr(d) for d in self._shape)}]" if self._shape else ""
        keys = f"({', '.join(f'{k}={v!r}' for k, v in self._keys.items())})" if self._keys else ""
        return f"symgrad.{self._kind}{dims}{keys}"


hyperparameter = Annotation("hyperparameter")

if TYPE_CHECKING:
    from torch import Tensor

    tensor: TypeAlias = Tensor
    constant: TypeAlias = Tensor
    integer: TypeAlias = Tensor
    boolean: TypeAlias = Tensor
else:
    tensor = Annotation("tensor")
    constant = Annotation("constant")
    integer = Annotation("integer")
    boolean = Annotation("boolean")
