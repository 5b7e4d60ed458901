"""FSDP2 of an encoder that keeps the norm of each gradient after each step. Each gradient is gathered whole for its norm, or ranks
add the squares of their shards in one reduction.

whole_norms.py [shards]
"""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from steps import join, leave, size, steps

gpu = join()
width = size(2048, 32)
layer = {"dropout": 0.0, "batch_first": True, "norm_first": True, "device": gpu}
model = nn.Sequential(*[nn.TransformerEncoderLayer(width, 16, 4 * width, **layer) for _ in range(size(6, 2))])
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for block in model:
    fully_shard(block, mp_policy=policy)
fully_shard(model, mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
x = torch.randn(size(8, 2), size(1024, 8), width, device=gpu)
norms = []
for i in steps(size(36, 8)):
    loss = (model(x).float() - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    if "shards" in sys.argv:
        squares = torch.stack([p.grad.to_local().square().sum() for p in model.parameters()])
        dist.all_reduce(squares)
        norms.append(squares.sqrt())
    else:
        norms.append(torch.stack([p.grad.full_tensor().norm() for p in model.parameters()]))
    optimizer.step()
print(float(torch.stack(norms).max()))
leave()
