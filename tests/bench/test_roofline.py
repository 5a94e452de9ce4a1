"""The estimate of what passes can reach on a GPU: the documentation has what the command prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
from benchmarks.kernels import SPECS
from benchmarks.roofline import DEVICES, Cost, Counter
from benchmarks.without_device import _blocks, _shortest

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
NAMES = [path.stem for path in SPECS]


@pytest.mark.parametrize(
    "names", [["logsumexp_rows"], pytest.param(NAMES, marks=pytest.mark.nightly)], ids=["one", "all"]
)
def test_the_table_of_the_documentation_is_what_the_command_prints(names):
    command = [sys.executable, "-m", "benchmarks.roofline", *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 2 + len(names)
    assert all(line in DOCS for line in lines)


def test_the_documentation_has_a_row_for_every_operation():
    table = DOCS.partition("| operation | bytes |")[2].partition("\n\n")[0]
    assert [line.split()[1] for line in table.splitlines()[2:]] == NAMES


def test_the_slowest_part_of_a_device_decides():
    cost = Cost(moved=8, threads=1, counted=Counter({"FFMA": 3, "MUFU.EX2": 2, "F2F.F64.F32": 1, "IADD3": 4}))
    a100 = DEVICES[0]
    seconds = cost.seconds(a100)
    assert seconds["memory"] == 8 / a100.bandwidth
    assert seconds["instructions"] == pytest.approx(10 / (128 * 108 * 1.41e9), rel=1e-3)
    assert seconds["float32"] == 3 / (a100.float32 / 2)
    assert seconds["float64"] == 1 / (a100.float64 / 2)
    assert seconds["special"] == pytest.approx(2 / (16 * 108 * 1.41e9), rel=1e-3)


MACHINE_CODE = """
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/              @!P0 BRA `(.L_x_1) ;
        /*0020*/                   FMUL R2, R2, R3 ;
        /*0030*/                   FMUL R2, R2, R3 ;
.L_x_0:
        /*0040*/                   MUFU.RCP R2, R2 ;
        /*0050*/               @P1 BRA `(.L_x_0) ;
.L_x_1:
        /*0060*/                   STG.E [R4], R2 ;
        /*0070*/                   EXIT ;
.L_x_2:
        /*0080*/                   BRA `(.L_x_2);
"""


def test_instructions_are_those_of_the_shortest_way():
    assert _shortest(_blocks(MACHINE_CODE)) == {"MOV": 1, "BRA": 1, "STG.E": 1, "EXIT": 1}
    always = MACHINE_CODE.replace("@!P0 BRA `(.L_x_1)", "     NOP")
    assert _shortest(_blocks(always)) == {"MOV": 1, "NOP": 1, "FMUL": 2, "MUFU.RCP": 1, "BRA": 1, "STG.E": 1, "EXIT": 1}
