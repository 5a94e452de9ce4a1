"""The JSON schema takes what is read, and refuses what is refused for the keys alone."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from symgrad.errors import SpecError
from symgrad.spec import parse_spec
from symgrad.spec.grammar import SPEC
from symgrad.spec.schema import json_schema


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Every subschema that describes a mapping."""
    if isinstance(schema, dict):
        if "object" in schema.get("type", ()) and isinstance(schema["type"], str | list):
            yield schema
        for part in schema.values():
            yield from objects(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from objects(part)


def test_it_is_plain_json_and_a_new_value_each_time() -> None:
    schema = json_schema()
    assert json.loads(json.dumps(schema)) == schema
    schema["properties"].clear()
    assert json_schema()["properties"]


def test_the_dialect_and_the_required_keys() -> None:
    schema = json_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["required"] == ["op", "tensors", "outputs"]


def test_no_mapping_takes_unknown_keys() -> None:
    found = list(objects(json_schema()))
    assert len(found) > 10
    assert all(schema["additionalProperties"] is False for schema in found)


def test_every_key_is_described() -> None:
    for schema in objects(json_schema()):
        for name, key in schema.get("properties", {}).items():
            assert len(key["description"]) > 10, name


def test_every_pattern_is_a_regular_expression() -> None:
    text = json.dumps(json_schema())
    for pattern in json.loads("[" + ",".join(re.findall(r'"pattern": ("(?:[^"\\]|\\.)*")', text)) + "]"):
        re.compile(pattern)


def test_defaults_are_those_of_the_dataclasses() -> None:
    options = json_schema()["properties"]["options"]["properties"]
    assert {name: key.get("default") for name, key in options.items()} == {
        "save": "auto",
        "double_backward": True,
        "inplace": None,
        "accumulate": "float32",
        "precision": "auto",
        "align": "names",
        "kernels": "auto",
        "targets": None,
        "library": None,
    }
    output = json_schema()["properties"]["outputs"]["patternProperties"].popitem()[1]
    assert output["anyOf"][1]["properties"]["grad"]["default"] is True


@pytest.mark.parametrize("key", json_schema()["properties"])
def test_the_parser_knows_the_keys_of_the_schema_and_suggests_them(key: str) -> None:
    assert key in SPEC.keys
    with pytest.raises(SpecError) as caught:
        parse_spec(f"{key}_: 1")
    assert any(f"did you mean '{key}'?" in mistake.message for mistake in caught.value.mistakes)


@pytest.mark.parametrize("name", ["aten::relu", "prim::f", "prims::f", "relu"])
def test_a_library_has_a_namespace_of_its_own(name: str) -> None:
    text = f'op: f\ntensors: {{x: }}\noutputs: {{y: x}}\noptions: {{library: "{name}"}}\n'
    with pytest.raises(SpecError, match="not one of torch's own"):
        parse_spec(text)
    assert parse_spec(text.replace(name, "atena::relu")).options.library == "atena::relu"
