"""The commands about speed: build and bench."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from symgrad.cli.options import found_specs, specs_argument
from symgrad.cli.program import F, terminal, verbosity
from symgrad.resources import TARGETS

_DTYPES = ("float32", "float64", "bfloat16", "float16")


@click.command()
@click.argument("modules", nargs=-1, required=True, metavar="MODULE...", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    metavar="DTYPE",
    type=click.Choice(_DTYPES),
    default=_DTYPES,
    help=f"Only for this dtype ({', '.join(_DTYPES)}); may be given several times.",
)
@verbosity
def build(modules: tuple[Path, ...], dtypes: tuple[str, ...]) -> int:
    """Compile the fused passes of generated modules ahead of time.

    A MODULE is a generated Python file, or a folder with all modules in it. The libraries go where the
    modules look for them: $SYMGRAD_CACHE, or symgrad in the user's cache folder.
    """
    from symgrad.cli.kernels import build as build_modules

    files = [file for path in modules for file in (sorted(path.glob("*.py")) if path.is_dir() else [path])]
    with_passes = [f for f in files if f.with_name(f"{f.stem}.cpp").exists()]
    if not with_passes:
        raise click.UsageError("No module with fused passes: generate them with `symgrad gen --kernels`.")
    return build_modules(terminal(), with_passes, dtypes)


def _several(name: str, kind: Any, default: tuple[object, ...], what: str) -> Callable[[F], F]:
    """An option that may be given several times, each of which is measured."""
    shown = ", ".join(map(str, default))
    return click.option(
        name,
        f"{name.strip('-')}s",
        multiple=True,
        metavar=name.strip("-").upper(),
        type=kind,
        default=default,
        help=f"{what}; may be given several times.  [default: {shown}]",
    )


@click.command()
@specs_argument
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="TARGET",
    type=click.Choice(TARGETS),
    default=("torch",),
    show_default=True,
    help=f"Measure the module for this framework ({', '.join(TARGETS)}); may be given several times.",
)
@_several("--size", click.IntRange(min=1), (1 << 22,), "Elements of the largest tensor")
@_several("--dtype", click.Choice(_DTYPES), ("float32",), f"Dtype of the tensors: {', '.join(_DTYPES)}")
@_several("--device", click.Choice(("cpu", "cuda")), ("cpu",), "Where they are: cpu, cuda")
@click.option("--threads", metavar="N", type=click.IntRange(min=1), help="Threads; by default as many as torch takes.")
@click.option(
    "--rounds",
    metavar="N",
    type=click.IntRange(min=2),
    default=11,
    show_default=True,
    help="Measurements of each form.",
)
@click.option(
    "--natives",
    metavar="FILE",
    type=click.Path(exists=True, path_type=Path),
    help="Python file with torch's own functions, by the names of the operations.",
)
@click.option("--compile/--no-compile", "compiled", default=True, help="Whether to measure torch.compile too.")
@click.option("--json", metavar="FILE", type=click.Path(path_type=Path), help="Write the figures as JSON.")
@click.option("--plot", metavar="FILE", type=click.Path(path_type=Path), help="Draw time over size (PNG, SVG).")
@verbosity
def bench(
    specs: tuple[Path, ...],
    targets: tuple[str, ...],
    sizes: tuple[int, ...],
    dtypes: tuple[str, ...],
    devices: tuple[str, ...],
    threads: int | None,
    rounds: int,
    natives: Path | None,
    compiled: bool,
    json: Path | None,
    plot: Path | None,
) -> int:
    """Measure every SPEC: forward and backward, memory, first call.

    The composite under autograd, the generated module without and with fused passes, torch.compile
    of the composite, torch's own kernel, and the time that the memory itself needs; in turn, in one run.

    For JAX and MLX: forward and backward in one compiled function, in float32 on the framework's default device, and
    what reverse mode keeps, beside the composite's. Of the options --size, --rounds and --json hold for them.
    """
    from symgrad.cli.kernels import bench as measure_specs
    from symgrad.cli.kernels import bench_arrays

    others = [name for name in targets if name != "torch"]
    if others:
        if "torch" in targets:
            raise click.UsageError("PyTorch is measured in a run of its own: its table has other columns.")
        return bench_arrays(terminal(), found_specs(specs), others, sizes=sizes, rounds=rounds, json=json)
    return measure_specs(
        terminal(),
        found_specs(specs),
        sizes=sizes,
        dtypes=dtypes,
        devices=devices,
        threads=threads,
        rounds=rounds,
        natives=natives,
        compiled=compiled,
        json=json,
        plot=plot,
    )
