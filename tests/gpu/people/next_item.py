"""A recommender guesses the next of 50,000 items (SASRec). Its table has one more row for no item, or 48 for whole multiples of 64.

next_item.py [whole]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
items, width, length, batch = size(50_000, 80), size(512, 32), size(200, 8), size(32, 4)
rows = (items + 1 + 63) // 64 * 64 if "whole" in sys.argv else items + 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.items, self.places = nn.Embedding(rows, width, padding_idx=0), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.items.weight, std=width ** -0.5)

    def forward(self, seen):
        h = self.items(seen) + self.places.weight
        return self.norm(self.body(h)) @ self.items.weight.T


model = Net().to(gpu)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
bought = torch.randint(1, items + 1, (batch, length + 1), device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(40, 16)):
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            scores = model(bought[:, :-1])
            loss = nn.functional.cross_entropy(scores.flatten(0, 1), bought[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
