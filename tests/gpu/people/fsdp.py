"""FSDP of a decoder, of the first or second kind, or of the second in groups of two ranks (HSDP).

fsdp.py [1|2|hybrid]
"""
import functools
import sys

import torch
from torch import nn

from steps import RANKS, join, leave, profiler, size, steps

hybrid = "hybrid" in sys.argv
second = hybrid or "2" in sys.argv
gpu = join()
width, batch, length = size(2048, 32), size(4, 2), size(512, 8)
layer = functools.partial(nn.TransformerEncoderLayer, width, 16, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
model = nn.Sequential(nn.Linear(width, width), *[layer() for _ in range(size(10, 2))]).to(gpu)
if second:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    mesh = init_device_mesh(gpu.type, (RANKS // 2, 2), mesh_dim_names=("replicate", "shard")) if hybrid else None
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
else:
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
    wrap = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={nn.TransformerEncoderLayer})
    model = FullyShardedDataParallel(model, auto_wrap_policy=wrap, device_id=gpu if gpu.type == "cuda" else None,
                                     mixed_precision=MixedPrecision(param_dtype=torch.bfloat16), use_orig_params=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
x = torch.randn(batch, length, width, device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(30, 8)):
        loss = (model(x).float() - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0) if second else model.clip_grad_norm_(1.0)
        optimizer.step()
        if i % 10 == 0:
            print(i, loss.item(), float(norm))
        profile.step()
leave()
