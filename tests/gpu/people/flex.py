"""Attention with a penalty for distance, by flex_attention: run as it is, or compiled.

flex.py [compiled]
"""
import sys

import torch
from torch.nn.attention.flex_attention import flex_attention

from steps import device, profiler, size, steps

gpu = device()
q, k, v = torch.randn(3, size(4, 1), size(16, 2), size(2048, 128), 64, device=gpu, dtype=size(torch.bfloat16, torch.float32))
slope = torch.linspace(0.1, 1, q.shape[1], device=gpu)
weight = torch.randn(64, 64, device=gpu, dtype=q.dtype) / 8


def nearer(score, batch, head, at, other):
    return score - slope[head] * (at - other).abs()


attend = torch.compile(flex_attention) if "compiled" in sys.argv and gpu.type == "cuda" else flex_attention
with torch.no_grad(), profiler(record_shapes=True) as profile:
    for i in steps(size(40, 16)):
        h = q
        for _ in range(size(8, 2)):
            h = attend(h @ weight, k, v, score_mod=nearer)
        profile.step()
