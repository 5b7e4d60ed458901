"""FSDP2 of an encoder as one unit, or each layer as a unit.

one_unit.py [layers]
"""
import sys

import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from steps import join, leave, profiler, size, steps

gpu = join()
width = size(2048, 32)
model = nn.Sequential(*[nn.TransformerEncoderLayer(width, 16, 4 * width, dropout=0.0, batch_first=True, norm_first=True,
                                                   device=gpu) for _ in range(size(12, 2))])
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
if "layers" in sys.argv:
    for layer in model:
        fully_shard(layer, mp_policy=policy)
fully_shard(model, mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
x = torch.randn(size(4, 2), size(512, 8), width, device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(36, 16)):
        loss = (model(x).float() - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
leave()
