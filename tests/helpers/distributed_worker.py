"""One of two processes: generated operations under DDP, FSDP2 and DTensor against their composites."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
import torch.distributed as dist
from compiled import SPECS, Compiled, compiled
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

# Operations of each kind, and how their tensors lie on two devices; every tensor as the spec's own sample.
PLACEMENTS: dict[str, list[Any]] = {
    "swish": [Shard(0), Replicate()],
    "huber": [Shard(0), Shard(0)],
    "bias_add": [Shard(0), Replicate()],
    "linear_relu": [Shard(0), Replicate(), Replicate()],
    "linear": [Replicate(), Shard(0), Shard(0)],
    "rms_norm": [Shard(0), Replicate()],
    "softmax_rows": [Shard(0)],
}


class Scaled(nn.Module):
    """A layer with parameters around a generated module."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.before = nn.Linear(8, 8, dtype=torch.float64)
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner(self.before(x))
        return result


def spec(op: str) -> Compiled:
    """The compiled operation of a spec."""
    return compiled(next(p for p in SPECS if p.stem == op))


def check_placements(op: str, placements: list[Any], mesh: Any) -> None:
    """Values, gradients and placements of results are the composite's."""
    item = spec(op)
    wanted = item.differentiable
    settings = next(iter(item.hyperparameters(1)))
    found = []
    for function in (item.function, item.composite):
        tensors = item.tensors()
        laid = [distribute_tensor(t, mesh, [p]) for t, p in zip(tensors, placements, strict=True)]
        leaves = [t.requires_grad_(s.name in wanted) for t, s in zip(laid, item.spec.tensors, strict=True)]
        y = function(*leaves, *settings)
        grads = torch.autograd.grad(y.sum(), [t for t in leaves if t.requires_grad])
        found.append((y, *grads))
    for own, theirs in zip(*found, strict=True):
        assert isinstance(own, DTensor)
        assert isinstance(theirs, DTensor)
        torch.testing.assert_close(own.full_tensor(), theirs.full_tensor())
    assert found[0][0].placements == found[1][0].placements, op


def check_data_parallel() -> None:
    """Gradients that DDP and FSDP2 average are those of one process on the whole batch."""
    torch.manual_seed(0)
    module = spec("swish").module
    whole = Scaled(module.Swish(dtype=torch.float64))
    state = {name: p.detach().clone() for name, p in whole.named_parameters()}
    batch = torch.randn(6, 8, dtype=torch.float64)
    whole(batch).mean().backward()
    rank = dist.get_rank()
    mine = batch[3 * rank : 3 * rank + 3]
    for wrap in (DistributedDataParallel, fully_shard):
        copy = Scaled(module.Swish(dtype=torch.float64))
        copy.load_state_dict(state)
        if wrap is fully_shard:
            copy.inner.beta = nn.Parameter(copy.inner.beta.detach().reshape(1))  # FSDP shards no scalars
        wrapped = wrap(copy)
        wrapped(mine).mean().backward()
        for (name, p), q in zip(wrapped.named_parameters(), whole.parameters(), strict=True):
            grad = p.grad.full_tensor() if isinstance(p.grad, DTensor) else p.grad
            torch.testing.assert_close(grad.reshape(q.shape), q.grad, msg=f"{wrap}: {name}")


def main(rank: int, rendezvous: str) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank)}
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    known = {p.stem for p in SPECS}
    for op, placements in PLACEMENTS.items():
        if op in known:
            check_placements(op, placements, mesh)
    check_data_parallel()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(int(sys.argv[1]), sys.argv[2])
    sys.stdout.flush()
    os._exit(0)  # where a process ends as usual, threads of gloo now and then end it with an error
