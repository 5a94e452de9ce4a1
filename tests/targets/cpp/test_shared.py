"""What all C++ files of a folder share."""

from __future__ import annotations

import re

from symgrad.targets.cpp.shared import reserved
from symgrad.targets.cpp.spellings import SPELLINGS


def test_no_value_is_named_as_a_function_that_formulas_call() -> None:
    """`const auto ceil = ceil(x)` does not compile."""
    called = {name for s in SPELLINGS.values() for name in re.findall(r"\b([a-z]\w*)\(", s.lanes)}
    assert {"ceil", "floor", "exp"} <= called <= reserved()
