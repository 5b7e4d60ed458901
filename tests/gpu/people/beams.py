"""Sentences are written by beam search: the past of all beams is copied in each step, or only the beams' numbers are noted.

beams.py [noted]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
layers, heads, width, past, beams = size(12, 2), size(16, 2), size(64, 8), size(1024, 16), size(64, 4)
kind = torch.bfloat16
keys = [torch.randn(beams, heads, past, width, device=gpu, dtype=kind) for _ in range(2 * layers)]
model = nn.ModuleList([nn.Linear(heads * width, heads * width) for _ in range(2 * layers)]).to(gpu, kind)
head = nn.Linear(heads * width, size(32000, 50)).to(gpu, kind)
order = torch.arange(beams, device=gpu)
with torch.no_grad(), profiler() as profile:
    for _ in steps(size(60, 8)):
        h = torch.randn(beams, heads * width, device=gpu, dtype=kind)
        for i in range(layers):
            query = model[2 * i](h).view(beams, heads, 1, width)
            seen = nn.functional.scaled_dot_product_attention(query, keys[2 * i], keys[2 * i + 1])
            h = h + model[2 * i + 1](seen.reshape(beams, heads * width))
        best = head(h).float().log_softmax(-1).flatten().topk(beams).indices // head.out_features
        if "noted" in sys.argv:
            order = order[best]
        else:
            keys = [one.index_select(0, best) for one in keys]
        profile.step()
