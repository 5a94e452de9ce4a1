"""What was measured, as a table, as JSON and as a plot of time over size."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from symgrad.errors import SymgradError
from symgrad.text import counted

if TYPE_CHECKING:
    from symgrad.bench.measure import Row

__all__ = ["busy", "check_target", "doubts", "plot", "summary", "table", "write_json"]

_HEAD = (
    "op",
    "form",
    "elements",
    "dtype",
    "device",
    "forward",
    "total",
    "quartiles",
    "limit",
    "saved",
    "peak",
    "first call",
)
_UNITS = ("", "", "", "", "", "ms", "ms", "ms", "times", "MB", "MB", "s")


def table(rows: Sequence[Row]) -> str:
    """A Markdown table, one row a form."""
    cells = [_HEAD, _UNITS, *(_cells(row) for row in rows)]
    widths = [max(len(line[k]) for line in cells) for k in range(len(_HEAD))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |" for line in cells]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    low, high = row.spread
    return (
        row.op,
        row.form,
        str(row.elements),
        row.dtype,
        row.device,
        f"{row.forward * 1e3:.3g}",
        f"{row.total * 1e3:.3g}",
        f"{low * 1e3:.3g}-{high * 1e3:.3g}",
        f"{row.ratio:.2f}",
        f"{row.saved / 1e6:.1f}",
        f"{row.peak / 1e6:.1f}",
        f"{row.cold:.2f}",
    )


def summary(rows: Sequence[Row]) -> list[str]:
    """Geometric means over the operations: of the ratio to the limit, and of other forms to the kernels."""
    lines = []
    for key in dict.fromkeys((r.elements, r.dtype, r.device) for r in rows):
        group = [r for r in rows if (r.elements, r.dtype, r.device) == key]
        kernels = {r.op: r for r in group if r.form == "kernels"}
        ratio = _mean(r.ratio for r in kernels.values())
        lines.append(f"{key[1]}, {key[0]} elements, {key[2]}: kernels take {ratio:.2f} times the limit")
        for form in dict.fromkeys(r.form for r in group if r.form not in ("kernels", "limit")):
            others = [r for r in group if r.form == form and r.op in kernels]
            speed = _mean(r.total / kernels[r.op].total for r in others)
            least = min(r.total / kernels[r.op].total for r in others)
            told = counted(len(others), "operation")
            lines.append(f"  {speed:.2f} times as fast as {form} over {told}, at least {least:.2f}")
    return lines


def doubts(rows: Sequence[Row]) -> list[str]:
    """What the figures do not show: forms that were measured no differently from the kernels, by their quartiles."""
    lines = []
    for own in (r for r in rows if r.form == "kernels"):
        key = (own.op, own.elements, own.dtype, own.device)
        for other in rows:
            if (other.op, other.elements, other.dtype, other.device) != key or other.form in ("kernels", "limit"):
                continue
            if own.spread[0] < other.spread[1] and other.spread[0] < own.spread[1]:
                lines.append(
                    f"{own.op}, {own.elements} elements, {own.dtype}: the quartiles of kernels and {other.form} "
                    "overlap; more --rounds, or a machine at rest, would tell them apart"
                )
        if own.ratio < 1:
            lines.append(f"{own.op}: below the limit, for what it writes is in the cache still, or is written past it")
    return lines


def busy() -> str:
    """That other programs keep the machine busy, or an empty text."""
    try:
        load, cores = os.getloadavg()[0], os.cpu_count() or 1
    except (AttributeError, OSError):  # not on this system
        return ""
    if load < cores / 2:
        return ""
    return f"the machine is busy (a load of {load:.1f} on {cores} cores): figures will scatter"


def _mean(values: Iterable[float]) -> float:
    logs = [math.log(v) for v in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def write_json(rows: Sequence[Any], path: Path) -> None:
    """The rows as a list of objects."""
    path.write_text(json.dumps([asdict(r) for r in rows], indent=1) + "\n", encoding="utf-8")


def _pyplot() -> Any:
    """What draws. Raises SymgradError without matplotlib."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        raise SymgradError("the plot needs matplotlib: pip install 'symgrad[bench]'") from None
    return pyplot


def check_target(path: Path, *, plotted: bool = False) -> None:
    """Raise SymgradError where a report cannot be written to a path: before all is measured rather than after."""
    if path.is_dir() or not path.parent.is_dir():
        raise SymgradError(f"{path} is a folder" if path.is_dir() else f"there is no folder {path.parent}")
    formats = _pyplot().figure().canvas.get_supported_filetypes() if plotted else ()
    if plotted and path.suffix.removeprefix(".").lower() not in formats:
        raise SymgradError(f"{path.name}: a plot has one of the suffixes {', '.join(f'.{f}' for f in formats)}")


def plot(rows: Sequence[Row], path: Path) -> None:
    """Time over size of every form, one panel an operation. Raises SymgradError without matplotlib."""
    ops = list(dict.fromkeys(r.op for r in rows))
    columns = min(3, len(ops))
    figure, axes = _pyplot().subplots(
        math.ceil(len(ops) / columns),
        columns,
        squeeze=False,
        figsize=(4.5 * columns, 3.5 * math.ceil(len(ops) / columns)),
    )
    for op, panel in zip(ops, axes.flat, strict=False):
        for form in dict.fromkeys(r.form for r in rows if r.op == op):
            points = sorted((r.elements, r.total * 1e3) for r in rows if r.op == op and r.form == form)
            style = {"color": "black", "linestyle": "--"} if form == "limit" else {"marker": "."}
            panel.loglog(*zip(*points, strict=True), label=form, **style)
        panel.set_title(op)
        panel.set_xlabel("elements")
        panel.set_ylabel("forward + backward, ms")
    for panel in axes.flat[len(ops) :]:
        panel.remove()
    axes.flat[0].legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path)
