"""A detector learns centres of boxes (CenterNet). The boxes of each picture are copied to the device one tensor after the other, or
are put together on the host and copied at once.

targets.py [together]
"""
import random
import sys

import torch
import torchvision
from torch import nn

from steps import device, size, steps

gpu = device()
together = "together" in sys.argv
batch, side, classes = size(96, 4), size(224, 64), 20
grid = side // 32


def drawn():
    """A picture has some boxes."""
    count = random.randrange(3, 12)
    return {"cell": torch.randint(grid, (count, 2)), "box": torch.rand(count, 4), "label": torch.randint(classes, (count,)),
            "weight": torch.rand(count)}


def on_device(targets, key):
    if together:
        return torch.cat([target[key] for target in targets]).to(gpu)
    return torch.cat([target[key].to(gpu) for target in targets])


random.seed(0)
batches = [[drawn() for _ in range(batch)] for _ in range(4)]
body = nn.Sequential(*list(torchvision.models.resnet34().children())[:-2])
model = nn.Sequential(body, nn.Conv2d(512, classes + 4, 1)).to(gpu, memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
x = torch.randn(batch, 3, side, side, device=gpu).to(memory_format=torch.channels_last)
for i in steps(size(40, 8)):
    targets = batches[i % len(batches)]
    cell, box, label, weight = (on_device(targets, key) for key in ("cell", "box", "label", "weight"))
    counts = torch.tensor([len(target["label"]) for target in targets])
    picture = torch.repeat_interleave(torch.arange(batch), counts).to(gpu)
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        out = model(x)
    found = out.permute(0, 2, 3, 1)[picture, cell[:, 0], cell[:, 1]].float()
    wrong = nn.functional.cross_entropy(found[:, :classes], label, reduction="none")
    loss = (weight * wrong).mean() + (found[:, classes:].sigmoid() - box).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
