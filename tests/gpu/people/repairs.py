"""An encoder repairs characters of scanned texts. The distance of edits of six texts is counted in Python after each step, or after
each fiftieth.

repairs.py [seldom]
"""
import sys

import torch
from torch import nn

from steps import device, size, steps

gpu = device()
every = 50 if "seldom" in sys.argv else 1
batch, length, width, characters = size(256, 8), size(128, 12), size(512, 32), 96


def edits(a, b):
    row = list(range(len(b) + 1))
    for i, one in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (one != other))
    return row[-1]


class Repair(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(characters, width), nn.Parameter(torch.randn(length, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True)
        self.body, self.head = nn.TransformerEncoder(layer, size(6, 2)), nn.Linear(width, characters)

    def forward(self, scanned):
        return self.head(self.body(self.embed(scanned) + self.place))


model = Repair().to(gpu)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
text = torch.randint(characters, (batch, length), device=gpu)
wrong = torch.rand(batch, length, device=gpu) < 0.1
scanned = torch.where(wrong, torch.randint_like(text, characters), text)
rates = []
for i in steps(size(40, 8)):
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        scores = model(scanned)
    loss = nn.functional.cross_entropy(scores.flatten(0, 1).float(), text.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if i % every == 0:
        guessed, meant = scores[:6].argmax(-1).tolist(), text[:6].tolist()
        rates.append(sum(map(edits, guessed, meant)) / (6 * length))
print(rates[-1])
