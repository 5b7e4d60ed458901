"""A decoder whose blocks are compiled for each length of text until there are too many, or for texts padded to one length.

lengths.py [padded]
"""
import random
import sys

import torch
from torch import nn

from steps import device, on_gpu, size, steps

gpu = device()
width, heads, longest, batch = size(1024, 32), 16, size(512, 16), size(16, 2)


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
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        h = self.norm2(x)
        return x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))


embed, head = nn.Embedding(8192, width), nn.Linear(width, 8192, bias=False)
model = nn.Sequential(embed, *[Block() for _ in range(size(6, 2))], head).to(gpu, torch.bfloat16)
if on_gpu():
    from torch import _dynamo
    _dynamo.config.recompile_limit = 2
    for block in model[1:-1]:
        block.compile(dynamic=False)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
rng = random.Random(0)
for i in steps(size(40, 8)):
    text = torch.randint(8192, (batch, rng.randrange(longest * 7 // 8, longest) + 1), device=gpu)
    goal = text.roll(-1, 1)
    if "padded" in sys.argv:
        more = longest - text.shape[1]
        text, goal = nn.functional.pad(text, (0, more)), nn.functional.pad(goal, (0, more), value=-100)
    loss = nn.functional.cross_entropy(model(text).flatten(0, 1), goal.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
