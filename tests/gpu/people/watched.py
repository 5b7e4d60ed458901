"""An encoder finds seizures in an EEG. Its nn.MultiheadAttention returns the weights of attention, which nobody reads, as it does
by default, or leaves them out.

watched.py [blind]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
batch, length, width, channels = size(16, 2), size(1024, 16), size(512, 32), 19
options = {"need_weights": False} if "blind" in sys.argv else {}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, size(8, 2), batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        h = self.first(x)
        mixed, _ = self.attention(h, h, h, **options)
        x = x + mixed
        return x + self.mlp(self.second(x))


model = nn.Sequential(nn.Linear(channels, width), *[Block() for _ in range(size(8, 2))], nn.Linear(width, 2)).to(gpu)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
eeg = torch.randn(batch, length, channels, device=gpu)
seizure = torch.randint(2, (batch, length), device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(40, 16)):
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(eeg).flatten(0, 1), seizure.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
