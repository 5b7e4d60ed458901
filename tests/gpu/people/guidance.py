"""A picture is denoised with guidance: the net runs with and without the prompt, one after the other, or as one batch.

guidance.py [together]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.mix, self.prompt = nn.GroupNorm(8, width), nn.Conv2d(width, width, 3, padding=1), nn.Linear(width, width)

    def forward(self, x, prompt):
        return x + self.mix(torch.nn.functional.silu(self.norm(x))) + self.prompt(prompt)[:, :, None, None]


gpu = device()
width = size(128, 8)
blocks = nn.ModuleList([Block(width) for _ in range(size(24, 2))]).to(gpu).bfloat16()
picture = torch.randn(1, width, size(32, 8), size(32, 8), device=gpu, dtype=torch.bfloat16)
prompts = torch.randn(2, width, device=gpu, dtype=torch.bfloat16)


def net(x, prompt):
    for block in blocks:
        x = block(x, prompt)
    return x


with torch.no_grad(), profiler() as profile:
    for _ in steps(size(80, 8)):
        x = picture
        for _ in range(size(4, 1)):
            if "together" in sys.argv:
                with_prompt, without = net(x.expand(2, -1, -1, -1), prompts).chunk(2)
            else:
                with_prompt, without = net(x, prompts[:1]), net(x, prompts[1:])
            x = x - 0.1 * (without + 7 * (with_prompt - without))
        profile.step()
