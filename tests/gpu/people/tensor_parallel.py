"""Tensor parallel blocks of attention and a multilayer perceptron by parallelize_module, on all ranks or on two with FSDP2 over
the pairs.

tensor_parallel.py [pairs]
"""
import sys

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from steps import RANKS, join, leave, size, steps

gpu = join()
pairs = "pairs" in sys.argv
parts = 2 if pairs else RANKS
mesh = init_device_mesh(gpu.type, (RANKS // parts, parts), mesh_dim_names=("data", "tensor"))
width, heads = size(2048, 32), 16


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        h = self.norm1(x)
        q, k, v = (part(h).unflatten(-1, (heads // parts, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


model = nn.Sequential(*[Block() for _ in range(size(8, 2))]).to(gpu)
for block in model:
    parallelize_module(block, mesh["tensor"], {"q": ColwiseParallel(), "k": ColwiseParallel(), "v": ColwiseParallel(),
                                               "out": RowwiseParallel(), "up": ColwiseParallel(),
                                               "down": RowwiseParallel()})
    if pairs:
        fully_shard(block, mesh=mesh["data"])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)  # norms are no DTensors
torch.manual_seed(0)
x = torch.randn(size(4, 2), size(1024, 8), width, device=gpu)
for i in steps(size(30, 8)):
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        loss = (model(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
leave()
