"""Compiled templates beside the templates, as Python keeps compiled modules beside modules."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path

from jinja2.bccache import Bucket, BytecodeCache

__all__ = ["TemplateCode"]


class TemplateCode(BytecodeCache):
    """The code of templates in a folder that need not be there, nor be writable: then it is compiled each time.

    Jinja2 asks for it by the text of the template and the version of Python.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _path(self, bucket: Bucket) -> Path:
        return self._folder / f"{bucket.key}.{sys.implementation.cache_tag}.jinja"

    def load_bytecode(self, bucket: Bucket) -> None:
        """Read the code of one template, if it is there."""
        with contextlib.suppress(OSError), self._path(bucket).open("rb") as file:
            bucket.load_bytecode(file)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep the code of one template; another process sees the whole file or none."""
        if sys.dont_write_bytecode:
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._folder)
            with os.fdopen(handle, "wb") as file:
                bucket.write_bytecode(file)
            os.replace(name, self._path(bucket))
