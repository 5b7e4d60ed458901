"""A state space layer: its states are found word by word in a loop, or by one cumulative sum in logarithms.

selective.py [sums]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
batch, words, width, depth = size(16, 2), size(256, 12), size(1024, 16), 2


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.out, self.rate = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        u, rate = self.into(x), -nn.functional.softplus(self.rate(x)) * 0.1
        if "sums" in sys.argv:
            total = rate.cumsum(1)
            states = total.exp() * (u * (-total).exp()).cumsum(1)
        else:
            state, all_states = torch.zeros_like(u[:, 0]), []
            for word in range(words):
                state = rate[:, word].exp() * state + u[:, word]
                all_states.append(state)
            states = torch.stack(all_states, 1)
        return x + self.out(torch.tanh(states))


model = nn.Sequential(*[Layer() for _ in range(depth)]).to(gpu)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
x = torch.randn(batch, words, width, device=gpu)
with profiler(active=3) as profile:
    for i in steps(size(40, 8)):
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
