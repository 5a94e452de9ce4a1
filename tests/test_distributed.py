"""Generated operations work over two processes: DDP, FSDP2 and DTensor, with the composite's placements."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed as dist

WORKER = Path(__file__).with_name("helpers") / "distributed_worker.py"


@pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="this torch has no gloo")
def test_two_processes_agree_with_one(tmp_path: Path) -> None:
    commands = [[sys.executable, str(WORKER), str(rank), str(tmp_path / "rendezvous")] for rank in (0, 1)]
    ranks = [
        subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=WORKER.parent)
        for c in commands
    ]
    texts = [rank.communicate(timeout=240)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(texts)[-4000:]
