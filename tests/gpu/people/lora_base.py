"""LoRA on a base whose weights have 4 bits and are widened by plain operations in each step, or once before the first.

lora_base.py [wide]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
half = torch.bfloat16
width, group, rank = size(4096, 64), 64, size(16, 4)
levels = torch.linspace(-1, 1, 16, device=gpu, dtype=half)


class Base(nn.Module):
    """A frozen layer with a trained product of two thin matrices."""

    def __init__(self):
        super().__init__()
        self.packed = torch.randint(256, (width * width // 2,), device=gpu, dtype=torch.uint8)
        self.scale = torch.rand(width * width // group, 1, device=gpu, dtype=half) * width ** -0.5
        self.down, self.up = nn.Linear(width, rank, bias=False), nn.Linear(rank, width, bias=False)
        self.wide = self.weight() if "wide" in sys.argv else None

    def weight(self):
        number = torch.stack([self.packed & 15, self.packed >> 4], 1).long()
        return (levels[number].view(-1, group) * self.scale).view(width, width)

    def forward(self, x):
        weight = self.weight() if self.wide is None else self.wide
        return nn.functional.linear(x, weight) + self.up(self.down(x))


model = nn.Sequential(*[m for _ in range(size(20, 2)) for m in (Base(), nn.SiLU())]).to(gpu, half)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
x = torch.randn(size(2048, 8), width, device=gpu, dtype=half)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(36, 16)):
        loss = (model(x) - x).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
