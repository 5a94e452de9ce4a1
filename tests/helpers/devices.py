"""What only a machine with a GPU can test: `pytest -m cuda` is all of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch


def on_cuda(test: Any) -> Any:
    """Mark a test as one that needs a GPU."""
    return pytest.mark.cuda(pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")(test))
