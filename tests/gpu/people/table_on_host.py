"""A recommender whose table of items is on the host: rows are looked up there and copied, and their gradients copied back; or the
table is on the device.

table_on_host.py [device]
"""
import sys

import torch
from torch import nn

from steps import device, size, steps

gpu = device()
width, items, batch, fields = size(128, 8), size(2_000_000, 100), size(4096, 8), 26
where = gpu if "device" in sys.argv else torch.device("cpu")
table = nn.Embedding(items, width, sparse=True, device=where)
net = nn.Sequential(nn.Linear(fields * width, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 1)).to(gpu)
rows, dense = torch.optim.SGD(table.parameters(), lr=1e-2), torch.optim.Adam(net.parameters())
clicked = torch.rand(batch, 1, device=gpu).round()
chosen = torch.randint(items, (8, batch, fields))
for i in steps(size(36, 8)):
    rows.zero_grad()
    dense.zero_grad()
    found = table(chosen[i % 8].to(where)).to(gpu)
    nn.functional.binary_cross_entropy_with_logits(net(found.flatten(1)), clicked).backward()
    rows.step()
    dense.step()
