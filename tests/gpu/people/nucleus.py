"""Next words are drawn from the likeliest ones that have 0.9 together: all scores are sorted, or the best 64 only.

nucleus.py [best]
"""
import sys

import torch
from torch import nn

from steps import device, size, steps

gpu = device()
width, words, batch = size(2048, 16), size(128256, 500), size(256, 4)
net = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Linear(width, words))
net = net.to(gpu, torch.bfloat16)
embed = nn.Embedding(words, width).to(gpu, torch.bfloat16)
word = torch.zeros(batch, dtype=torch.long, device=gpu)


def draw(scores):
    if "best" in sys.argv:
        share, order = scores.softmax(-1).topk(64)
    else:
        share, order = scores.softmax(-1).sort(-1, descending=True)
    share = share.masked_fill(share.cumsum(-1) - share > 0.9, 0)
    return order.gather(-1, torch.multinomial(share, 1))[:, 0]


with torch.no_grad():
    for i in steps(size(48, 8)):
        for _ in range(4):
            word = draw(net(embed(word)).float())
