"""FSDP2 of an encoder; the gradients of four micro-batches are reduced after each, or after the last.

micro_batches.py [last]
"""
import sys

import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from steps import join, leave, profiler, size, steps

gpu = join()
last_only = "last" in sys.argv
width = size(4096, 32)
model = nn.Sequential(*[nn.TransformerEncoderLayer(width, 32, 4 * width, dropout=0.0, batch_first=True, norm_first=True,
                                                   device=gpu) for _ in range(size(4, 2))])
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for layer in model:
    fully_shard(layer, mp_policy=policy)
fully_shard(model, mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
x = torch.randn(4, size(2, 2), size(256, 8), width, device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(36, 16)):
        optimizer.zero_grad()
        for micro in range(4):
            if last_only:
                model.set_requires_gradient_sync(micro == 3)
            loss = (model(x[micro]).float() - x[micro]).square().mean() / 4
            loss.backward()
        optimizer.step()
        profile.step()
leave()
