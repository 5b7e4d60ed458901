"""A tagger's loss leaves out padding: by picking what is no padding, or by weights of zero.

padded_loss.py [weights]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
batch, length, width, tags = size(64, 2), size(128, 8), size(256, 8), 20
layer = nn.TransformerEncoderLayer(width, size(4, 2), 4 * width, batch_first=True)
model = nn.Sequential(nn.Embedding(10000, width), nn.TransformerEncoder(layer, size(4, 1)), nn.Linear(width, tags)).to(gpu)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=gpu.type == "cuda")
x, y = torch.randint(10000, (batch, length), device=gpu), torch.randint(tags, (batch, length), device=gpu)
real = torch.arange(length, device=gpu) < torch.randint(length // 2, length, (batch, 1), device=gpu)
with profiler() as profile:
    for _ in steps(size(80, 8)):
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            scores = model(x)
        if "weights" in sys.argv:
            each = nn.functional.cross_entropy(scores.flatten(0, 1).float(), y.flatten(), reduction="none")
            loss = (each * real.flatten()).sum() / real.sum()
        else:
            loss = nn.functional.cross_entropy(scores[real].float(), y[real])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
