"""FSDP1 of an encoder whose backward pass gathers a layer's parameters when it reaches the layer, or one layer before.

prefetch.py [before]
"""
import functools
import sys

import torch
from torch import nn
from torch.distributed.fsdp import BackwardPrefetch, FullyShardedDataParallel, MixedPrecision
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

from steps import join, leave, size, steps

gpu = join()
width = size(4096, 32)
model = nn.Sequential(*[nn.TransformerEncoderLayer(width, 32, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
                        for _ in range(size(6, 2))]).to(gpu)
wrap = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={nn.TransformerEncoderLayer})
half = torch.bfloat16
model = FullyShardedDataParallel(
    model, auto_wrap_policy=wrap, device_id=gpu if gpu.type == "cuda" else None, use_orig_params=True,
    mixed_precision=MixedPrecision(param_dtype=half, reduce_dtype=half),
    backward_prefetch=BackwardPrefetch.BACKWARD_PRE if "before" in sys.argv else None)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
x = torch.randn(size(4, 2), size(512, 8), width, device=gpu)
for i in steps(size(36, 8)):
    loss = (model(x).float() - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
leave()
