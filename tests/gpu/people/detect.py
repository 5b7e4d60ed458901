"""A detector with anchors: the loss of each picture picks its anchors by masks, or weights all of them.

detect.py [weights]
"""
import sys

import torch
import torchvision
from torch import nn

from steps import device, size, steps

gpu = device()
weights = "weights" in sys.argv
batch, side, cell, shapes, classes = size(16, 2), size(512, 64), 16, 9, 21
body = nn.Sequential(*list(torchvision.models.resnet50().children())[:-3])
head = nn.Sequential(nn.Conv2d(1024, 256, 3, padding=1), nn.ReLU(), nn.Conv2d(256, shapes * (classes + 4), 1))
model = nn.Sequential(body, head).to(gpu, memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
pictures = torch.randn(batch, 3, side, side, device=gpu).to(memory_format=torch.channels_last)

centre = torch.arange(side // cell, device=gpu) * cell + cell / 2
wide = torch.tensor([a * b for a in (32, 64, 128) for b in (0.7, 1.0, 1.4)], device=gpu)
x, y, w = (part.flatten() for part in torch.meshgrid(centre, centre, wide, indexing="ij"))
anchors = torch.stack([x - w / 2, y - w / 2, x + w / 2, y + w / 2], 1)
corner = torch.rand(batch, 8, 2, device=gpu) * side / 2
boxes = torch.cat([corner, corner + 30 + torch.rand(batch, 8, 2, device=gpu) * side / 3], 2)
labels = torch.randint(1, classes, (batch, 8), device=gpu)


def loss_of(score, shift, box, label):
    """One picture's loss."""
    best, which = torchvision.ops.box_iou(anchors, box).max(1)
    positive, used = best > 0.5, (best > 0.5) | (best < 0.4)
    target = torch.where(positive, label[which], torch.zeros_like(which))
    goal = (box[which] - anchors) / cell
    if weights:
        of_class = (nn.functional.cross_entropy(score, target, reduction="none") * used).sum()
        of_box = (nn.functional.smooth_l1_loss(shift, goal, reduction="none").sum(1) * positive).sum()
        return (of_class + of_box) / positive.sum().clamp(min=1)
    of_class = nn.functional.cross_entropy(score[used], target[used], reduction="sum")
    of_box = nn.functional.smooth_l1_loss(shift[positive], goal[positive], reduction="sum")
    return (of_class + of_box) / max(1, int(positive.sum()))


for i in steps(size(36, 8)):
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        out = model(pictures)
    out = out.float().permute(0, 3, 2, 1).reshape(batch, len(anchors), classes + 4)
    loss = sum(loss_of(one[:, 4:], one[:, :4], box, label) for one, box, label in zip(out, boxes, labels)) / batch
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
