"""The memory limit: the time in which this machine moves the bytes that an operation must move."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from symgrad.errors import SymgradError
from symgrad.resources import template_folder

__all__ = ["limit"]

_FOR_ONE_THREAD = 1 << 18  # bytes that others do not help to move


@cache
def _stream() -> Any:
    own = os.environ.get("CXX") or "g++"
    compiler = next((c for c in ([own], own.split(), ["clang++"]) if c and shutil.which(c[0])), None)
    if compiler is None:
        raise SymgradError("the memory limit is measured by a C++ program, and there is no compiler")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "stream.so"
        source = template_folder() / "bench" / "stream.cpp"
        flags = ["-O3", "-march=native", "-fopenmp", "-shared", "-fPIC"]
        command = [*compiler, *flags, str(source), "-o", str(library)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode != 0:
            raise SymgradError(f"the memory limit needs a C++ program, and {compiler[0]} failed:\n{done.stderr}")
        function = ctypes.CDLL(str(library)).stream
    function.restype = ctypes.c_float
    return function


def limit(read: Sequence[Tensor], written: Sequence[Tensor]) -> Callable[[], object]:
    """A function that reads the bytes of some tensors and writes new ones of the sizes of others, which it returns.

    On CUDA it copies, which reads and writes as many bytes together.
    """
    if read[0].is_cuda:
        return _copying(sum(t.numel() * t.element_size() for t in (*read, *written)) // 2, read[0].device)
    stream = _stream()
    sources = [t.detach() for t in read if t.numel()]
    sizes = [t.numel() * t.element_size() for t in sources]
    targets = [t.numel() * t.element_size() for t in written]
    threads = torch.get_num_threads() if sum((*sizes, *targets)) > _FOR_ONE_THREAD else 1
    read_bytes, written_bytes = (ctypes.c_int64 * len(sizes))(*sizes), (ctypes.c_int64 * len(targets))(*targets)

    def move() -> list[Tensor]:
        made = [torch.empty(n, dtype=torch.uint8) for n in targets]
        stream(
            (ctypes.c_void_p * len(sources))(*[t.data_ptr() for t in sources]),
            read_bytes,
            len(sources),
            (ctypes.c_void_p * len(made))(*[t.data_ptr() for t in made]),
            written_bytes,
            len(made),
            threads,
        )
        return made

    return move


def _copying(size: int, device: torch.device) -> Callable[[], object]:
    aligned = max(1, size + -size % 512)  # else the target is not, and is copied to in a quarter more time
    source, target = torch.zeros(2, aligned, dtype=torch.uint8, device=device)

    def move() -> object:
        return target.copy_(source)

    return move
