"""Blocks as in LLaMA's published code, with norms and rotations written out, or under torch.compile.

pointwise.py [compiled]
"""
import sys

import torch
from torch import nn

from steps import device, size, steps

gpu = device()
width, batch, length = size(1024, 32), size(8, 2), size(1024, 8)


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.weight


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = Norm(), Norm()
        self.mix, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x, cos, sin):
        h = self.mix(self.norm1(x))
        a, b = h.chunk(2, -1)
        x = x + self.out(h * cos + torch.cat((-b, a), -1) * sin)
        h = self.norm2(x)
        return x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(size(6, 2))])

    def forward(self, x, cos, sin):
        for block in self.blocks:
            x = block(x, cos, sin)
        return x


model = Decoder().to(gpu, torch.bfloat16)
call = torch.compile(model) if "compiled" in sys.argv and gpu.type == "cuda" else model
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
x = torch.randn(batch, length, width, device=gpu, dtype=torch.bfloat16)
angle = torch.randn(length, width, device=gpu)
cos, sin = angle.cos().to(torch.bfloat16), angle.sin().to(torch.bfloat16)
for i in steps(size(30, 8)):
    loss = (call(x, cos, sin) - x).float().square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
