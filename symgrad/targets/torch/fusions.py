"""How torch spells the operations of `symgrad.plan.fusion`."""

from __future__ import annotations

from collections.abc import Mapping

from symgrad.lower.growth import BOUNDS

# What the runtime file computes faster than torch does; composites call torch.
FASTER: Mapping[str, str] = {"var": "rt.var({0}, {attributes})", "cat": "rt.cat(({operands},), {dim})"}

SPELLING: Mapping[str, str] = {
    "threshold_backward": "torch.ops.aten.threshold_backward({0}, {1}, 0)",
    "leaky_relu": "F.leaky_relu({0}, {1})",
    "leaky_relu_backward": "torch.ops.aten.leaky_relu_backward({0}, {1}, {2}, False)",
    **{op: f"rt.{op}({{0}})" for op in BOUNDS},
    "masked": "rt.masked({0}, {1})",
    "guarded": "rt.guarded({0}, {1}, {2})",
    "softmax_backward": "rt.softmax_backward({0}, {1}, {2})",
    "log_softmax_backward": "rt.log_softmax_backward({0}, {1}, {2})",
    "sigmoid_backward": "torch.ops.aten.sigmoid_backward({0}, {1})",
    "tanh_backward": "torch.ops.aten.tanh_backward({0}, {1})",
    "addcmul_scaled": "torch.addcmul({0}, {1}, {2}, value={3})",
    "add_scaled": "torch.add({0}, {1}, alpha={2})",
    "sub_scaled": "torch.sub({0}, {1}, alpha={2})",
    "addcmul": "torch.addcmul({0}, {1}, {2})",
    "subcmul": "torch.addcmul({0}, {1}, {2}, value=-1)",
}
