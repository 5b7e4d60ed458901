"""A detector without anchors (DETR): each picture's boxes are matched on the host by scipy, or nearest first on the GPU.

matcher.py [near]
"""
import sys

import torch
import torchvision
from scipy.optimize import linear_sum_assignment
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
batch, side, queries, width, things = size(16, 2), size(384, 64), size(100, 10), 256, 12


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(*list(torchvision.models.resnet50().children())[:-2])
        self.narrow = nn.Conv2d(2048, width, 1)
        self.mix = nn.Transformer(width, 8, 3, 3, 1024, dropout=0, batch_first=True)
        self.asked = nn.Parameter(torch.randn(1, queries, width))
        self.box = nn.Linear(width, 4)

    def forward(self, x):
        h = self.narrow(self.body(x)).flatten(2).transpose(1, 2)
        return self.box(self.mix(h, self.asked.expand(len(x), -1, -1))).sigmoid()


model = Net().to(gpu)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
x, goals = torch.randn(batch, 3, side, side, device=gpu), torch.rand(batch, things, 4, device=gpu)
for i in steps(size(40, 6)):
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        boxes = model(x)
    boxes = boxes.float()
    cost = torch.cdist(boxes.detach(), goals, 1)
    if "near" in sys.argv:
        loss = sum((boxes[n].gather(0, cost[n].argmin(0)[:, None].expand(-1, 4)) - goals[n]).abs().mean() for n in range(batch))
    else:
        pairs = [linear_sum_assignment(one) for one in cost.cpu()]
        loss = sum((boxes[n][torch.as_tensor(a)] - goals[n][torch.as_tensor(b)]).abs().mean() for n, (a, b) in enumerate(pairs))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
