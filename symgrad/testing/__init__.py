"""The conformance suite: any torch.autograd.Function against the composite of its formula.

``check_function`` holds one function against its reference and reports; ``FunctionTests`` is the base class of pytest
classes that state the facts of an operation, as generated tests do; ``audit`` is a reviewer's report.
torch and pytest are imported when one of them is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from symgrad.testing.facts import Accuracy, Input, Subject

if TYPE_CHECKING:
    from symgrad.testing.checks import CHECKS, Check, Finding
    from symgrad.testing.report import Report, check_function
    from symgrad.testing.review import Audit, audit
    from symgrad.testing.suite import FunctionTests

__all__ = [
    "CHECKS",
    "Accuracy",
    "Audit",
    "Check",
    "Finding",
    "FunctionTests",
    "Input",
    "Report",
    "Subject",
    "audit",
    "check_function",
]

_WHERE = {
    "CHECKS": "report",
    "Audit": "review",
    "Check": "checks",
    "Finding": "checks",
    "FunctionTests": "suite",
    "Report": "report",
    "audit": "review",
    "check_function": "report",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
