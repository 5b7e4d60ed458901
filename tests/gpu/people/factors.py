"""Factors of a matrix of users and items by SGD over pairs (BPR), with dense or sparse gradients of the tables.

factors.py [sparse]
"""
import sys

import torch
from torch import nn

from steps import device, size, steps

gpu = device()
sparse = "sparse" in sys.argv
people, things, width, batch = size(20_000_000, 200), size(2_000_000, 100), 64, size(65536, 16)
of_people = nn.Embedding(people, width, sparse=sparse, device=gpu)
of_things = nn.Embedding(things, width, sparse=sparse, device=gpu)
optimizer = torch.optim.SGD([of_people.weight, of_things.weight], lr=0.05)
for i in steps(size(60, 8)):
    who = torch.randint(people, (batch,), device=gpu)
    liked, seen = torch.randint(things, (2, batch), device=gpu)
    one = of_people(who)
    better = (one * of_things(liked)).sum(1) - (one * of_things(seen)).sum(1)
    loss = -nn.functional.logsigmoid(better).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
