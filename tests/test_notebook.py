"""The Python interface: texts and modules without files, and what importing symgrad costs."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
import traceback
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import symgrad
from symgrad import files, resources
from symgrad.errors import SymgradError
from symgrad.spec import Spec, parse_spec

SPEC = "op: doubled\ntensors:\n  x:\noutputs:\n  y: 2*x\n"
MODULE = """\
FACTOR = {factor}


class Doubled:
    pass


def doubled(x):
    if x is None:
        raise ValueError("no x")  # the line that a traceback shows
    return FACTOR * x
"""


def texts(module: str) -> dict[str, str]:
    return {"doubled.py": module, "test_doubled.py": "import doubled\n"}


@pytest.fixture(autouse=True)
def compiler(monkeypatch):
    """A compiler that needs no time; the texts it gives depend on the spec."""

    def compile_spec(spec: Spec) -> SimpleNamespace:
        if "broken" in spec.summary:
            return SimpleNamespace(
                spec=spec, files=texts("raise OSError('broken')\n"), shared={}, others={}, mistakes=()
            )
        factor = 3 if "3*x" in spec.text else 2
        return SimpleNamespace(spec=spec, files=texts(MODULE.format(factor=factor)), shared={}, others={}, mistakes=())

    pipeline = ModuleType("symgrad.pipeline")
    pipeline.compile_spec = compile_spec
    monkeypatch.setitem(sys.modules, "symgrad.pipeline", pipeline)
    yield
    sys.modules.pop("symgrad.loaded.doubled", None)


@pytest.fixture
def path(tmp_path) -> Path:
    file = tmp_path / "doubled.yaml"
    file.write_text(SPEC)
    return file


def test_generate_gives_what_gen_writes(path, tmp_path):
    generated = symgrad.generate(path)
    assert generated == symgrad.generate(str(path))
    source = files.spec_hash(parse_spec(SPEC))
    written = files.render(texts(MODULE.format(factor=2)), spec_path=str(path), source=source)
    assert {"doubled.py": generated.module, "test_doubled.py": generated.test} == written


def test_generate_takes_text_and_spec():
    from_text, from_spec = symgrad.generate(SPEC), symgrad.generate(parse_spec(SPEC))
    assert from_text == from_spec
    assert "# spec: <spec>\n" in from_text.module


@pytest.mark.parametrize("spec", [None, 3, b"op: x"])
def test_what_is_no_spec(spec):
    with pytest.raises(TypeError, match="a spec is a path, a YAML text"):
        symgrad.generate(spec)


def test_a_mapping_without_outputs_has_a_mistake():
    with pytest.raises(symgrad.SpecError, match="outputs"):
        symgrad.generate({"op": "doubled"})


def test_mistakes_are_the_message():
    with pytest.raises(symgrad.SpecError) as caught:
        symgrad.load("op: doubled\ntensorz:\n  x:\n")
    assert "<spec>:2:1: tensorz: " in str(caught.value)
    assert "\n^" in str(caught.value)


def test_a_missing_file_is_a_mistake(tmp_path):
    with pytest.raises(symgrad.SpecError, match=r"none\.yaml:1:1: no such file"):
        symgrad.load(tmp_path / "none.yaml")


def test_loaded_module_works(path):
    module = symgrad.load(path)
    assert module.doubled(4) == 8
    assert module.__name__.startswith("symgrad.loaded.doubled_")  # after its text
    assert sys.modules["symgrad.loaded.doubled"] is sys.modules[module.__name__] is module
    from symgrad.loaded import doubled  # type: ignore[import-not-found]

    assert doubled is module


def test_source_is_visible(path):
    module = symgrad.load(path)
    assert inspect.getsource(module) == symgrad.generate(path).module
    assert inspect.getsource(module.Doubled) == "class Doubled:\n    pass\n"
    assert inspect.getsource(module.doubled).startswith("def doubled(x):")
    assert module.__loader__.get_source(module.__name__) == symgrad.generate(path).module
    try:
        module.doubled(None)
    except ValueError:
        assert "# the line that a traceback shows" in traceback.format_exc()


def test_classes_can_be_pickled(path):
    module = symgrad.load(path)
    assert type(pickle.loads(pickle.dumps(module.Doubled()))) is module.Doubled


def test_loading_again(path):
    first = symgrad.load(path)
    assert symgrad.load(path) is first
    path.write_text(SPEC.replace("2*x", "3*x"))
    second = symgrad.load(path)
    assert (first.doubled(1), second.doubled(1)) == (2, 3)
    assert sys.modules["symgrad.loaded.doubled"] is second
    assert first.__file__ != second.__file__
    assert inspect.getsource(first).splitlines()[5] == "FACTOR = 2"


def test_a_module_that_does_not_import_leaves_the_old_one(path):
    first = symgrad.load(path)
    with pytest.raises(OSError, match="broken"):
        symgrad.load(SPEC + "summary: broken\n")
    assert sys.modules["symgrad.loaded.doubled"] is first


def test_without_its_framework_a_module_is_refused_with_what_to_install(monkeypatch):
    for target in ("torch", "jax"):
        monkeypatch.setitem(sys.modules, target, None)
        with pytest.raises(SymgradError, match=rf'not installed: python -m pip install "symgrad\[{target}\]"'):
            symgrad.load(SPEC, target=target)
    with pytest.raises(SymgradError, match="a module for tf cannot be made; the targets are torch, jax, mlx"):
        symgrad.load(SPEC, target="tf")


def test_templates_of_a_checkout_and_of_a_wheel(tmp_path):
    package = tmp_path / "symgrad"
    package.mkdir()
    with pytest.raises(SymgradError, match="templates are missing"):
        resources.template_folder(package)
    (tmp_path / "templates").mkdir()  # of another project
    with pytest.raises(SymgradError, match="templates are missing"):
        resources.template_folder(package)
    for folder in (tmp_path / "templates", package / "templates"):  # what the package holds goes first
        folder.mkdir(exist_ok=True)
        (folder / "new.yaml.j2").touch()
        assert resources.template_folder(package) == folder
    assert resources.template_folder().name == "templates"


def test_import_is_light():
    code = "import sys, symgrad; print(symgrad.__version__); print(*sys.modules)"
    root = Path(__file__).parents[1]
    process = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    version, modules = process.stdout.splitlines()
    assert version == symgrad.__version__
    assert not {"click", "rich", "sympy", "torch", "jinja2", "ruamel.yaml"} & set(modules.split())


def test_names_of_the_package():
    assert set(symgrad.__all__) <= set(dir(symgrad))
    assert symgrad.SymgradError is SymgradError
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = symgrad.nothing
