"""The base class of generated tests: a class states the facts, and gets one test for each check."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
from typing import Any

import pytest
import torch

from symgrad.testing.checks import Check, run
from symgrad.testing.facts import Residuals, Subject
from symgrad.testing.report import CHECKS

__all__ = ["FunctionTests", "seed"]

_DEVICES = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
# torch.manual_seed prints a stack for each kind of device that is not there, and keeps it: as slow as a small test.
seed = torch.manual_seed if torch.accelerator.is_available() else torch.default_generator.manual_seed


class FunctionTests:
    """Every check of symgrad.testing, for the operation whose facts a subclass states.

    ``call``, ``inputs`` and ``composite`` must be given; the other facts are the fields of Subject. A check that does
    not apply to the operation is no test of the subclass. Tests of the subclass's own go beside them. ``renamed`` holds
    the parameters of ``composite``, ``reference`` and ``rule`` for hyperparameters whose names these use themselves.
    """

    call: Any
    composite: Any
    renamed: Mapping[str, str] = {}
    residuals: Residuals  # declared, because an empty mapping has no type of its own

    @classmethod
    def subject(cls) -> Subject:
        """The facts of the class."""
        given = {f.name: getattr(cls, f.name) for f in fields(Subject) if hasattr(cls, f.name)}
        for name in ("call", "inplace", "function", "module"):
            if name in given:
                own = inspect.getattr_static(cls, name)
                given[name] = own.__func__ if isinstance(own, staticmethod) else own
        if cls.renamed:
            formulas = [name for name in ("composite", "reference", "rule") if given.get(name) is not None]
            given |= {name: _renaming(given[name], cls.renamed) for name in formulas}
        given.setdefault("name", getattr(given["call"], "__name__", cls.__name__))
        return Subject(**given)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        required = [f.name for f in fields(Subject) if f.default is MISSING and f.default_factory is MISSING]
        if any(not hasattr(cls, name) for name in required if name != "name"):
            return  # another base class
        subject = cls.subject()
        for check in CHECKS.values():
            if not check.applies(subject):
                setattr(cls, f"test_{check.name}", None)

    @pytest.fixture(autouse=True)
    def _alone(self) -> Iterator[None]:
        """One thread, as small tensors want it, and a seed for what torch draws."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        seed(0)
        yield
        torch.set_num_threads(threads)


def _renaming(function: Callable[..., Any], names: Mapping[str, str]) -> Callable[..., Any]:
    """The function with keywords of other names."""

    def call(*tensors: Any, **settings: Any) -> Any:
        return function(*tensors, **{names.get(name, name): value for name, value in settings.items()})

    return call


def _method(check: Check) -> Callable[..., None]:
    def on_device(self: FunctionTests, device: str) -> None:
        found = run(check, self.subject(), device)
        if found:
            raised = next((f.raised for f in found if f.raised is not None), None)
            raise AssertionError("\n".join(f.sentence for f in found)) from raised

    def once(self: FunctionTests) -> None:
        on_device(self, "cpu")

    made: Callable[..., None] = on_device if check.on_devices else once
    made.__name__ = f"test_{check.name}"
    made.__qualname__ = f"FunctionTests.{made.__name__}"
    made.__doc__ = check.summary
    return pytest.mark.parametrize("device", _DEVICES)(made) if check.on_devices else made


for _check in CHECKS.values():
    setattr(FunctionTests, f"test_{_check.name}", _method(_check))
