"""A language model of two LSTM layers, one cell at a time, or by nn.LSTM.

cells.py [whole]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
width, times, batch = size(512, 32), size(48, 6), size(64, 4)


class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList([nn.LSTMCell(width, width) for _ in range(2)])

    def forward(self, x):
        state, out = [(torch.zeros_like(x[0]), torch.zeros_like(x[0])) for _ in self.cells], []
        for h in x:
            for number, cell in enumerate(self.cells):
                state[number] = cell(h, state[number])
                h = state[number][0]
            out.append(h)
        return torch.stack(out), state


embed, head = nn.Embedding(8000, width).to(gpu), nn.Linear(width, 8000).to(gpu)
body = (nn.LSTM(width, width, 2) if "whole" in sys.argv else Cells()).to(gpu)
optimizer = torch.optim.SGD([*embed.parameters(), *body.parameters(), *head.parameters()], lr=0.1)
text = torch.randint(8000, (times + 1, batch), device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(30, 16)):
        out, _ = body(embed(text[:-1]))
        loss = nn.functional.cross_entropy(head(out).flatten(0, 1), text[1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
