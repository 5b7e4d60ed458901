"""DDP of a translator; ranks get sentences of different lengths in a step, or of one length.

translate.py [sorted]
"""
import random
import sys

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from steps import RANK, join, leave, size, steps

gpu = join()
width, batch = size(1536, 32), size(48, 2)
lengths = [size(48, 2) * i for i in range(1, 11)]


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(8000, width), nn.Linear(width, 8000)
        self.body = nn.Transformer(width, size(12, 2), size(4, 1), size(4, 1), 4 * width, 0.0, batch_first=True, device=gpu)

    def forward(self, source, target):
        return self.head(self.body(self.embed(source), self.embed(target)))


model = DistributedDataParallel(Translator().to(gpu))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
order = random.Random(0 if "sorted" in sys.argv else RANK)
for i in steps(size(40, 8)):
    if i % len(lengths) == 0:
        order.shuffle(lengths)
    source, target = torch.randint(8000, (2, batch, lengths[i % len(lengths)]), device=gpu)
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        scores = model(source, target)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), target.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
leave()
