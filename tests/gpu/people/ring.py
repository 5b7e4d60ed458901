"""Ring attention: keys and values go round the ranks, after each block's attention or during it.

ring.py [during]
"""
import sys

import torch
import torch.distributed as dist
from torch import nn

from steps import RANK, RANKS, join, leave, profiler, size, steps

during = "during" in sys.argv
gpu = join()
batch, length, heads, width = size(8, 1), size(2048, 16), size(16, 2), size(1024, 16)
half = torch.bfloat16
layers = nn.ModuleList([nn.ModuleList([nn.Linear(width, 3 * width), nn.Linear(width, width)]) for _ in range(size(8, 2))])
layers = layers.to(gpu, half)
x = torch.randn(batch, length, width, device=gpu, dtype=half)


def attend(q, k, v):
    """(output, logarithm of the sum) of one block."""
    if gpu.type == "cuda":
        return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v)[:2]
    score = q.float() @ k.float().transpose(-2, -1) * q.shape[-1] ** -0.5
    return (score.softmax(-1) @ v.float()).to(half), score.logsumexp(-1)


def pass_on(block):
    there = torch.empty_like(block)
    return there, dist.batch_isend_irecv([dist.P2POp(dist.isend, block, (RANK + 1) % RANKS),
                                          dist.P2POp(dist.irecv, there, (RANK - 1) % RANKS)])


def ring(q, block):
    out = total = following = None
    for at in range(RANKS):
        if during and at < RANKS - 1:
            following, works = pass_on(block)
        part, weight = attend(q, block[0], block[1])
        if out is None:
            out, total = part.float(), weight
        else:
            both = torch.logaddexp(total, weight)
            out = out * (total - both).exp()[..., None] + part * (weight - both).exp()[..., None]
            total = both
        if at == RANKS - 1:
            break
        if not during:
            following, works = pass_on(block)
        for work in works:
            work.wait()
        block = following
    return out.to(half)


with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(40, 16)):
        h = x
        with torch.no_grad():
            for mix, back in layers:
                q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in mix(h).chunk(3, -1))
                h = h + back(ring(q, torch.stack([k, v])).transpose(1, 2).flatten(2))
        profile.step()
leave()
