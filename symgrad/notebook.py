"""Generating without files: the texts of an operation, or its module, imported from memory."""

from __future__ import annotations

import atexit
import importlib.abc
import linecache
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING

from symgrad.errors import SymgradError
from symgrad.resources import lacking, module_name
from symgrad.ways.sources import spec_of

if TYPE_CHECKING:
    from symgrad.ways.sources import Source

__all__ = ["Generated", "generate", "imported", "load"]

_PACKAGE = "symgrad.loaded"


@dataclass(frozen=True)
class Generated:
    """The texts of an operation's files: exactly what ``symgrad gen`` writes.

    ``passes`` are the files of the fused passes by name, none for a spec without the option ``kernels``;
    ``shared`` what the modules of a folder have in common, ``others`` the files for targets beside torch.
    """

    op: str
    module: str
    test: str
    passes: dict[str, str] = field(default_factory=dict)
    shared: dict[str, str] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)


def generate(spec: Source) -> Generated:
    """Generate the files of ``spec``.

    It is a path, the YAML text itself (it has a line break), a formula, a mapping of the keys of a spec whose formulas
    are texts or SymPy expressions, a SymPy expression, or a Spec.

    Raises SpecError, whose message shows every mistake, and SymgradError for a spec that symgrad
    cannot compile.
    """
    from symgrad.files import render, spec_hash
    from symgrad.pipeline import compile_spec

    compiled = compile_spec(spec_of(spec))
    source = compiled.spec
    texts = render(compiled.files, spec_path=source.path, source=spec_hash(source), shared=compiled.shared)
    module, test = (texts.pop(name, "") for name in (f"{source.op}.py", f"test_{source.op}.py"))
    others = {name: texts.pop(name) for name in compiled.others}
    return Generated(source.op, module, test, texts, compiled.shared, others)


def load(spec: Source, *, target: str = "torch") -> ModuleType:
    """Generate the module of ``spec`` in memory and import it; takes and raises what generate() does.

    It is for ``target``: torch, jax or mlx. For torch the module is ``symgrad.loaded.<op>`` in
    ``sys.modules``, where it also stands under its own name, which ends in a hash of its text: its
    classes can be pickled (another process has to load the spec before it unpickles them).
    Tracebacks, debuggers and ``inspect.getsource`` show the generated source.
    Loading what is loaded already gives the same module; after a change of the spec, a new one.
    """
    if told := lacking(target):
        raise SymgradError(f"a module for {target} {told}")
    return imported(generate(spec_of(spec).with_targets((target,))), target)


def imported(generated: Generated, target: str = "torch") -> ModuleType:
    """The module for a target from the texts of an operation; see load()."""
    own = module_name(generated.op, target)
    name = f"{_PACKAGE}.{own}"
    before = sys.modules.get(name)
    _package()
    for shared in sorted(generated.shared, key=lambda name: name != "_runtime.py"):  # which others import
        if not shared.endswith(".py"):
            continue
        _load(f"{_PACKAGE}.{shared.removesuffix('.py')}", generated.shared[shared])
    module = _load(name, generated.module or generated.others[f"{own}.py"])
    if generated.passes and module is not before:
        folder = _on_disk(generated)
        kernels = vars(module)["_kernels"]
        for passes in filter(None, (kernels, kernels.elsewhere)):
            passes.source = folder / passes.source.name
    return module


def _load(name: str, text: str) -> ModuleType:
    """Import a text as a module of that name; the module there is, if it has this text.

    To itself it is called after its text as well: one of another text may take its place, and compilers look for
    modules by the names that they have.
    """
    digest = sha256(text.encode()).hexdigest()[:12]
    filename, own = f"<{name} {digest}>", f"{name}_{digest}"
    before = sys.modules.get(name)
    if before is not None and getattr(before, "__file__", None) == filename:
        return before
    loader = _TextLoader(filename, text)
    module_spec = ModuleSpec(own, loader, origin=filename)
    module_spec.has_location = True  # inspect finds the source of a class through __file__
    module = module_from_spec(module_spec)
    _remember(filename, text)
    sys.modules[own] = module
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[own]
        raise
    sys.modules[name] = module
    setattr(sys.modules[_PACKAGE], name.rpartition(".")[2], module)
    return module


def _on_disk(generated: Generated) -> Path:
    """A folder with the passes of a module in memory, for compilers; it goes when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="symgrad_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, text in (generated.passes | generated.shared).items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return folder


class _TextLoader(importlib.abc.InspectLoader):
    """Imports a module whose source is a text."""

    def __init__(self, filename: str, text: str) -> None:
        self._filename = filename
        self._text = text

    def get_source(self, fullname: str) -> str:
        """The generated source."""
        return self._text

    def get_code(self, fullname: str) -> CodeType:
        """The generated source, compiled."""
        return self.source_to_code(self._text, self._filename)

    def is_package(self, fullname: str) -> bool:
        """Never."""
        return False


def _remember(filename: str, text: str) -> None:
    """Show ``text`` to tracebacks and inspect. An entry without a time is never checked against the disk."""
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)


def _package() -> ModuleType:
    """The package that loaded modules stand in; it holds nothing else."""
    if _PACKAGE not in sys.modules:
        package = ModuleType(_PACKAGE, "Modules that ``symgrad.load`` made.")
        package.__path__ = []
        sys.modules[_PACKAGE] = package
    return sys.modules[_PACKAGE]
