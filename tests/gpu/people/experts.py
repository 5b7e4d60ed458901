"""A mixture of experts as transformers writes it: a loop over experts picks each one's tokens by a mask, or tokens are sorted once
and all experts are one product of groups.

experts.py [grouped]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
tokens, width, hidden, experts, chosen, depth = size(4096, 64), size(1024, 32), size(512, 32), size(64, 4), 4, 4
kind = {"device": gpu, "dtype": torch.bfloat16}


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.route = nn.Linear(width, experts, bias=False, **kind)
        self.up = nn.Parameter(torch.randn(experts, width, hidden, **kind) * 0.02)
        self.down = nn.Parameter(torch.randn(experts, hidden, width, **kind) * 0.02)

    def forward(self, x):
        weight, expert = self.route(x).softmax(-1, dtype=torch.float).topk(chosen)
        weight = weight.to(x.dtype)
        if "grouped" in sys.argv:
            order = expert.flatten().argsort()
            ends = torch.bincount(expert.flatten(), minlength=experts).cumsum(0).to(torch.int32)
            h = torch.relu(torch._grouped_mm(x[order // chosen], self.up, offs=ends))
            out = torch._grouped_mm(h, self.down, offs=ends) * weight.flatten()[order][:, None]
            return torch.zeros_like(x).index_add_(0, order // chosen, out)
        mask = nn.functional.one_hot(expert, experts).permute(2, 1, 0)
        result = torch.zeros_like(x)
        for i in range(experts):
            place, token = torch.where(mask[i])
            out = torch.relu(x[token] @ self.up[i]) @ self.down[i]
            result.index_add_(0, token, out * weight[token, place][:, None])
        return result


layers = nn.ModuleList(Mixture() for _ in range(depth))
optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-4, fused=gpu.type == "cuda")
x = torch.randn(tokens, width, **kind)
with profiler(active=3) as profile:
    for i in steps(size(40, 8)):
        h = x
        for layer in layers:
            h = h + layer(h)
        loss = (h - x).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
