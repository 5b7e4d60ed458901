"""Sentences of other lengths in each batch (and on each rank), padded to the batch's longest."""
import random

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from steps import RANK, RANKS, device, join, leave, size, steps

gpu = join() if RANKS > 1 else device()
random.seed(RANK)
layer = nn.TransformerEncoderLayer(size(768, 32), 8, size(3072, 64), batch_first=True, norm_first=True)
model = nn.ModuleDict({"embed": nn.Embedding(8000, size(768, 32)), "body": nn.TransformerEncoder(layer, size(8, 2)),
                       "head": nn.Linear(size(768, 32), 8000)})


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = model

    def forward(self, ids, empty):
        return self.parts["head"](self.parts["body"](self.parts["embed"](ids), src_key_padding_mask=empty))


net = Net().to(gpu)
if RANKS > 1:
    net = DistributedDataParallel(net)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)


def batch():
    lengths = [random.randint(16, size(512, 24)) for _ in range(size(8, 2))]
    ids = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.randint(1, 8000, (length,))
    return ids


for i in steps(size(36, 8)):
    ids = batch().to(gpu)
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        logits = net(ids, ids == 0)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), ids.flatten(), ignore_index=0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if i % 10 == 0:
        print(i, loss.item())
if RANKS > 1:
    leave()
