"""Reviews are split into words and numbered before each step, or were once before all steps.

reviews.py [before]
"""
import random
import re
import sys

import torch
from torch import nn

from steps import device, size, steps

gpu = device()
draw = random.Random(0)
words = ["".join(draw.choices("abcdefghij", k=6)) for _ in range(size(5000, 50))]
numbers = {word: i + 1 for i, word in enumerate(words)}
reviews = [" ".join(draw.choices(words, k=size(200, 8))) + "." for _ in range(size(1024, 16))]
length, batch = size(200, 8), size(256, 4)


def numbered(texts):
    rows = [[numbers.get(word, 0) for word in re.findall(r"\w+", text.lower())][:length] for text in texts]
    return torch.tensor([row + [0] * (length - len(row)) for row in rows])


ready = numbered(reviews).to(gpu)
width = size(256, 8)
layer = nn.TransformerEncoderLayer(width, size(4, 2), 4 * width, batch_first=True)
model = nn.Sequential(nn.Embedding(len(words) + 1, width), nn.TransformerEncoder(layer, size(4, 1)), nn.Flatten(),
                      nn.Linear(width * length, 2)).to(gpu)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=gpu.type == "cuda")
y = torch.randint(2, (batch,), device=gpu)
for i in steps(size(60, 8)):
    first = i * batch % len(reviews)
    x = ready[first:first + batch] if "before" in sys.argv else numbered(reviews[first:first + batch]).to(gpu)
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
