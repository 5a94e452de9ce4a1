"""The helpers at the end of a generated module: each only where the module uses it."""

from __future__ import annotations

import re
from functools import cache

from symgrad.backends.free_names import free_names
from symgrad.backends.snippets import needed
from symgrad.resources import template_folder

_DEFINED = re.compile(r"^(?:def |class )?(_\w+)", re.MULTILINE)
_WORD = re.compile(r"\b_\w+")


@cache
def snippets() -> dict[str, str]:
    """All helpers by name, in the order in which they are written."""
    found: dict[str, str] = {}
    for path in sorted((template_folder() / "torch" / "plumbing").glob("*.py")):
        text = path.read_text(encoding="utf-8").strip("\n")
        named = _DEFINED.search(re.sub(r"^@.*\n", "", text))
        assert named is not None, path
        found[named.group(1)] = text
    return found


def plumbing(body: str) -> str:
    """The helpers that a module body uses, directly or through others: constants, then functions."""
    chosen = needed(snippets(), body, _WORD.findall)
    constants = [text for text in chosen if not text.startswith(("def ", "class ", "@"))]
    functions = [text for text in chosen if text.startswith(("def ", "class ", "@"))]
    return "\n\n\n".join(["\n".join(constants), *functions] if constants else functions)


_MODULES = ("ctypes", "importlib.util", "math", "os", "platform", "shutil", "subprocess", "warnings")
_STANDARD = (
    ("array", ("array",)),
    ("collections", ("namedtuple",)),
    ("collections.abc", ("Callable", "Iterator")),
    ("contextlib", ("contextmanager", "nullcontext")),
    ("functools", ("reduce",)),
    ("hashlib", ("sha256",)),
    ("pathlib", ("Path",)),
    ("tempfile", ("TemporaryDirectory",)),
    ("threading", ("Lock",)),
    ("typing", ("Any", "Literal", "TypeGuard")),
)


def imports(text: str) -> str:
    """The import block that the text of a module needs; nothing but torch and the standard library."""
    lines = ["from __future__ import annotations", ""]
    read = free_names(text)
    lines += [
        f"import {name}"
        for name in _MODULES
        if name.split(".")[0] in read and re.search(rf"(?<![\w.\"'/]){name}\.\w", text)
    ]
    for module, names in _STANDARD:
        wanted = [name for name in names if name in read]
        if wanted:
            lines.append(f"from {module} import {', '.join(wanted)}")
    lines += ["", "import torch", "from torch import Tensor"]
    if "_functorch" in read:
        lines.append("from torch._C import _functorch")
    lines.append("from torch.autograd import Function" + (", forward_ad" if "forward_ad" in read else ""))
    if "F" in read:
        lines.append("from torch.nn import functional as F")
    if "nn_grad" in read:
        lines.append("from torch.nn import grad as nn_grad")
    return "\n".join(lines)
