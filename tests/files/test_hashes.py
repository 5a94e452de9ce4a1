"""Hashes: what counts as a change, and what does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from symgrad.files import code_hash, compiler_hash, hashes, spec_hash
from symgrad.spec import load_spec, parse_spec

SPECS = sorted((Path(__file__).parents[2] / "specs").glob("*.yaml"))
CODE = """\
import math
from os import path, sep


class A:
    '''What it is.

        y = x

    And more.
    '''

    size = {'a': 1, "b": 2}

    def f(self, x: int = 1_000) -> "int":
        return (x + 1) if x else max(x, math.pi, 2)
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("class A", "# why\nclass A"),
        ("'a'", '"a"'),
        ("2}", "2,}"),
        ("(x + 1)", "x+1"),
        ("max(x, math.pi, 2)", "max(\n            x,\n            math.pi,\n            2,\n        )"),
        ("import math\nfrom os import path, sep", "from os import sep\nfrom os import path\nimport math"),
        ("'''What it is.\n", "''' What it is.  \n"),
        ("\n\n    size", "\n\n\n\n    size"),
    ],
)
def test_comments_and_layout_do_not_count(before, after):
    assert before in CODE
    assert code_hash("a.py", CODE.replace(before, after)) == code_hash("a.py", CODE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x + 1", "x - 1"),
        ("'a'", "'c'"),
        ("1_000", "1_000.0"),
        ("math.pi", "math.e"),
        ("path, sep", "path"),
        ("import math", "import maths as math"),
        ("What it is", "What it was"),
        ("        y = x\n", "    y = x\n"),
        ('"int"', "int"),
    ],
)
def test_what_a_file_says_counts(before, after):
    assert before in CODE
    assert code_hash("a.py", CODE.replace(before, after)) != code_hash("a.py", CODE)


def test_a_statement_belongs_to_its_block():
    assert code_hash("a.py", "if a:\n    b\n    c\n") != code_hash("a.py", "if a:\n    b\nc\n")


def test_python_hashes_are_the_same_on_every_version():
    """Written down: later versions of Python have more fields in their trees."""
    assert code_hash("a.py", CODE) == "926fdc672b29e517"


def test_cpp_is_compared_without_white_space():
    text = "// one two\nint a = 1;\n"
    assert code_hash("a.cpp", "//  one\n//  two\nint a =\n  1;\n") == code_hash("a.cpp", text)
    assert code_hash("a.cpp", text.replace("1", "2")) != code_hash("a.cpp", text)


def test_what_is_no_python_has_a_hash():
    assert code_hash("a.py", "<<<<<<< ours\n") != code_hash("a.py", ">>>>>>> theirs\n")


def test_specs_are_compared_by_what_they_say():
    plain = "op: a\ntensors:\n  x:\n  y: {domain: '(0, oo)'}\noutputs:\n  z: x*y\n"
    other = "# why\n'op': a\ntensors: {x: , y: {domain: \"(0, oo)\"}}  # two\noutputs: {z: {expr: x*y}}\n"
    assert spec_hash(parse_spec(plain, "a.yaml")) == spec_hash(parse_spec(other, "b.yaml"))
    for change in (("x*y", "y*x"), ("(0,", "(1,"), ("op: a", "op: b"), ("  x:\n", "  x: {grad: false}\n")):
        assert spec_hash(parse_spec(plain.replace(*change))) != spec_hash(parse_spec(plain))
    swapped = plain.replace("  x:\n  y: {domain: '(0, oo)'}", "  y: {domain: '(0, oo)'}\n  x:")
    assert spec_hash(parse_spec(swapped)) != spec_hash(parse_spec(plain))


def test_options_of_the_command_line_count():
    spec = parse_spec("op: a\ntensors: {x: }\noutputs: {y: 2*x}\n")
    assert len({spec_hash(spec), spec_hash(spec.with_kernels()), spec_hash(spec, "pkg")}) == 3


def test_every_spec_has_a_hash_of_its_own():
    assert len({spec_hash(load_spec(path)) for path in SPECS}) == len(SPECS)


def test_a_value_without_a_hash_is_refused():
    spec = parse_spec("op: a\ntensors: {x: }\noutputs: {y: 2*x}\n")
    with pytest.raises(TypeError, match="holds a object"):
        spec_hash(replace(spec, doc=object()))


def test_the_compiler_is_its_modules_and_templates(monkeypatch, tmp_path):
    package, templates = tmp_path / "symgrad", tmp_path / "templates"
    for name in ("symgrad/files/hashes.py", "symgrad/cli/a.py", "symgrad/b.py", "templates/new.yaml.j2"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1\n")
    monkeypatch.setattr(hashes, "__file__", str(package / "files" / "hashes.py"))
    monkeypatch.setattr(hashes, "template_folder", lambda: templates)
    found = [compiler_hash.__wrapped__()]
    for name in ("symgrad/cli/a.py", "symgrad/b.py", "templates/new.yaml.j2"):
        (tmp_path / name).write_text("2\n")
        found.append(compiler_hash.__wrapped__())
    assert found[0] == found[1]
    assert len(set(found)) == 3
    (package / "b.py").write_bytes(b"2\r\n")
    assert compiler_hash.__wrapped__() == found[-1]
    templates.rename(package / "templates")  # as a wheel has them
    monkeypatch.setattr(hashes, "template_folder", lambda: package / "templates")
    assert compiler_hash.__wrapped__() == found[-1]
