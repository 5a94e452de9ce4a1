"""The derivation record of a compiled operation."""

from symgrad.derivation import Derivation
from symgrad.operation import Operation


def derivation(operation: Operation) -> Derivation:
    return Derivation()
