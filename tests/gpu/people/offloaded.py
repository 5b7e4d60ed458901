"""FSDP2 of an encoder whose shards and optimizer are on the host (CPUOffloadPolicy), or on the device.

offloaded.py [device]
"""
import sys

import torch
from torch import nn
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard

from steps import join, leave, size, steps

gpu = join()
width = size(1024, 32)
model = nn.Sequential(*[nn.TransformerEncoderLayer(width, 16, 4 * width, dropout=0.0, batch_first=True, norm_first=True,
                                                   device=gpu) for _ in range(size(4, 2))])
policies = {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
            "offload_policy": OffloadPolicy() if "device" in sys.argv else CPUOffloadPolicy()}
for layer in model:
    fully_shard(layer, **policies)
fully_shard(model, **policies)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(size(16, 2), size(1024, 8), width, device=gpu)
for i in steps(size(30, 8)):
    loss = (model(x).float() - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
leave()
