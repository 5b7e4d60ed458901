"""An encoder learns words that are masked; the loader's collate function pads and masks in Python, in the program's own thread or
in processes.

masked.py [WORKERS]
"""
import random
import sys

import torch
from torch import nn

from steps import device, size, steps

gpu = device()
workers = int(sys.argv[1]) if len(sys.argv) > 1 else 0
words, width, longest, batch = 4000, size(512, 32), size(256, 16), size(128, 4)


class Sentences(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 16

    def __getitem__(self, index):
        return [(index * 31 + at * 7) % (words - 2) + 2 for at in range(longest // 2 + index % (longest // 2))]


def collate(sentences):
    text, goal = [], []
    for sentence in sentences:
        masked, wanted = [], []
        for word in sentence:
            if random.random() < 0.15:
                masked.append(1 if random.random() < 0.8 else random.randrange(2, words))
                wanted.append(word)
            else:
                masked.append(word)
                wanted.append(-100)
        empty = longest - len(sentence)
        text.append(masked + [0] * empty)
        goal.append(wanted + [-100] * empty)
    return torch.tensor(text), torch.tensor(goal)


layer = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True)
embed, body = nn.Embedding(words, width).to(gpu), nn.TransformerEncoder(layer, size(3, 2)).to(gpu)
optimizer = torch.optim.SGD([*embed.parameters(), *body.parameters()], lr=0.1)
batches = iter(torch.utils.data.DataLoader(Sentences(), batch, shuffle=True, collate_fn=collate, num_workers=workers))
for i in steps(size(50, 8)):
    text, goal = next(batches)
    text, goal = text.to(gpu), goal.to(gpu)
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        scores = body(embed(text)) @ embed.weight.T
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), goal.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
