"""A mixture of experts, one group of experts on each rank; tokens prefer the first, so ranks do unequal work, or each equally.

moe.py [balanced]
"""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.nn.functional import all_to_all_single

from steps import RANK, RANKS, join, leave, profiler, size, steps

gpu = join()
width, tokens = size(1024, 32), size(8192, 64)
gate, dense = nn.Linear(width, RANKS).to(gpu), nn.Linear(width, width).to(gpu)
expert = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)).to(gpu)
shared = [*gate.parameters(), *dense.parameters()]
optimizer = torch.optim.AdamW([*shared, *expert.parameters()], lr=1e-4)
bias = torch.linspace(1.0, -1.0, RANKS, device=gpu)
if "balanced" in sys.argv:
    bias = 4.0 * nn.functional.one_hot(torch.arange(tokens, device=gpu) % RANKS, RANKS)
x = torch.randn(tokens, width, device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(30, 16)):
        h = dense(x)
        score = (gate(h) + bias).softmax(-1)
        chosen = score.argmax(-1)
        order = chosen.argsort()
        send = torch.bincount(chosen, minlength=RANKS)
        receive = torch.empty_like(send)
        if gpu.type == "cuda":
            dist.all_to_all_single(receive, send)
        else:
            every = [torch.empty_like(send) for _ in range(RANKS)]
            dist.all_gather(every, send)
            receive = torch.stack(every)[:, RANK]
        send, receive = send.tolist(), receive.tolist()
        there = h.new_empty(sum(receive), width)
        there = all_to_all_single(there, h[order], receive, send)
        back = all_to_all_single(torch.empty_like(h), expert(there), send, receive)
        out = torch.empty_like(h).index_copy(0, order, back) * score.gather(1, chosen[:, None])
        loss = (out - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        for p in shared:
            dist.all_reduce(p.grad)
        optimizer.step()
        profile.step()
leave()
