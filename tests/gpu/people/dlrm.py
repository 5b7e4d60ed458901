"""A recommender with 26 tables under torch.profiler with stacks."""
import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
rows, batch = size(100000, 50), size(4096, 8)
tables = nn.ModuleList([nn.EmbeddingBag(rows, 64, mode="sum") for _ in range(26)]).to(gpu)
bottom = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, 64)).to(gpu)
top = nn.Sequential(nn.Linear(27 * 64, 512), nn.ReLU(), nn.Linear(512, 1)).to(gpu)
optimizer = torch.optim.Adam([*tables.parameters(), *bottom.parameters(), *top.parameters()], lr=1e-3)
with profiler(active=2, with_stack=True, record_shapes=True) as profile:
    for i in steps(size(40, 13)):
        dense, bags, y = torch.rand(batch, 13), torch.randint(rows, (26, batch, 4)), torch.rand(batch, 1)
        dense, bags, y = dense.to(gpu), bags.to(gpu), y.to(gpu)
        parts = [bottom(dense)] + [table(bag) for table, bag in zip(tables, bags)]
        loss = nn.functional.binary_cross_entropy_with_logits(top(torch.cat(parts, 1)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
