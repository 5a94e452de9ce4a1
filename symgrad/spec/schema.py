"""The JSON schema of a spec, for editors: generated from the table that specs are read by."""

from __future__ import annotations

import json
from typing import Any

from symgrad.spec.grammar import SPEC

__all__ = ["json_schema", "schema_text"]


def json_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of a spec, as a new value of plain dicts and lists.

    It says what single keys hold. What they mean together (names declared once, defaults inside
    of domains) only reading a spec tells.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "symgrad spec",
        "description": "One differentiable operation: its tensors, hyperparameters and formulas.",
        **SPEC.schema(),
    }


def schema_text() -> str:
    """The JSON schema as the text of a file."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
