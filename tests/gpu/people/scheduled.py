"""torch.distributed.pipelining: a transformer in two stages by GPipe's schedule.

scheduled.py [MICRO_BATCHES]
"""
import sys

import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

from steps import RANK, RANKS, join, leave, profiler, size, steps

gpu = join()
micros = int(sys.argv[1]) if len(sys.argv) > 1 else 2
batch, words, width = size(32, 8), size(1024, 16), size(1024, 32)
layer = {"d_model": width, "nhead": 16, "dim_feedforward": 4 * width, "dropout": 0, "batch_first": True}
module = nn.Sequential(*[nn.TransformerEncoderLayer(**layer) for _ in range(size(8, 2) // RANKS)]).to(gpu, torch.bfloat16)
optimizer = torch.optim.SGD(module.parameters(), lr=1e-4)
x = torch.randn(batch, words, width, device=gpu, dtype=torch.bfloat16)
part = torch.empty(batch // micros, words, width, device=gpu, dtype=torch.bfloat16)
stage = PipelineStage(module, RANK, RANKS, gpu, input_args=(part,))
schedule = ScheduleGPipe(stage, micros, loss_fn=lambda out, goal: (out - goal).float().square().mean())
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(28, 8)):
        optimizer.zero_grad()
        if RANK == 0:
            schedule.step(x)
        else:
            schedule.step(target=x, losses=[])
        optimizer.step()
        profile.step()
leave()
