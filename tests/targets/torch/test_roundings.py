"""How often torch rounds decides whether half precision is computed in float32."""

from __future__ import annotations

from compiled import compiled_text

from symgrad.targets.torch.layout import Layout


def test_what_rounds_once_needs_no_wider_type() -> None:
    for formula, widens in {
        "2 * x": False,
        "max(x, 0)": False,
        "-x / 4": False,
        "sin(x)": False,
        "log_ndtr(x)": True,  # torch has none in half precision
        "sin(x) * x": True,
        "x.T * 3": False,
        "amax(x, dim=-1, keepdim=True) + x": False,
        "sin(x.mT) * x": True,
        "clamp(x, -2, 0.5) * x": False,
        "clamp(x, -0.3, 0.3)": False,
        "clamp(x, -0.3, 0.3) * x": True,  # the bound is rounded, too
    }.items():
        found = Layout(compiled_text(f"\nop: rounds\ntensors: {{x: }}\noutputs: {{z: '{formula}'}}\n").operation)
        assert found.widens is widens, formula
