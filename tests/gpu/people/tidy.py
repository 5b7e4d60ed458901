"""A classifier of reviews, which are in memory as lists; garbage is collected after each step, or as Python does it.

tidy.py [auto]
"""
import gc
import sys

import torch
from torch import nn

from steps import device, size, steps

gpu = device()
each = "auto" not in sys.argv
reviews = [(list(range(at % 900, at % 900 + 64)), at % 5) for at in range(size(100_000, 1000))]
width, batch = size(512, 32), size(256, 4)
layer = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True)
embed, body = nn.Embedding(1000, width).to(gpu), nn.TransformerEncoder(layer, size(6, 2)).to(gpu)
head = nn.Linear(width, 5).to(gpu)
optimizer = torch.optim.AdamW([*embed.parameters(), *body.parameters(), *head.parameters()], lr=1e-4)
for i in steps(size(32, 8)):
    some = reviews[i * batch:(i + 1) * batch]
    text, stars = torch.tensor([review for review, _ in some]).to(gpu), torch.tensor([star for _, star in some]).to(gpu)
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(head(body(embed(text)).mean(1)), stars)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if each:
        del text, stars, loss
        gc.collect()
