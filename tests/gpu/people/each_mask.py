"""A language model whose layers each make the mask of the future on the host and copy it, or share one that stays on the device.

each_mask.py [once]
"""
import sys

import torch
from torch import nn

from steps import device, size, steps

gpu = device()
length, width, words = size(1024, 16), size(768, 32), size(8192, 100)


def future():
    return torch.triu(torch.full((length, length), float("-inf")), diagonal=1).to(gpu)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.mask = future() if "once" in sys.argv else None
        self.embed, self.place = nn.Embedding(words, width), nn.Parameter(torch.randn(length, width) * 0.02)
        self.layers = nn.ModuleList([
            nn.TransformerEncoderLayer(width, size(12, 2), 4 * width, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(size(8, 2))])
        self.head = nn.Linear(width, words)

    def forward(self, ids):
        h = self.embed(ids) + self.place
        for layer in self.layers:
            h = layer(h, src_mask=future() if self.mask is None else self.mask)
        return self.head(h)


model = Decoder().to(gpu)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
ids = torch.randint(words, (size(8, 2), length + 1), device=gpu)
for i in steps(size(40, 8)):
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        scores = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
