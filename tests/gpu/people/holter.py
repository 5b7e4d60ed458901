"""A net of convolutions along time reads ECGs of a day. cuDNN is switched off, as a forum advised against one of its errors, or on.

holter.py [cudnn]
"""
import sys

import torch
from torch import nn

from steps import device, size, steps

gpu = device()
torch.backends.cudnn.enabled = "cudnn" in sys.argv
batch, length, width, leads = size(16, 2), size(16384, 64), size(256, 8), 3


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(width, width, 7, padding=3), nn.ReLU(), nn.Conv1d(width, width, 7, padding=3))

    def forward(self, x):
        return torch.relu(x + self.body(x))


model = nn.Sequential(nn.Conv1d(leads, width, 7, padding=3), *[Residual() for _ in range(size(4, 2))],
                      nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(width, 5)).to(gpu)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
ecg = torch.randn(batch, leads, length, device=gpu)
rhythm = torch.randint(5, (batch,), device=gpu)
for i in steps(size(40, 8)):
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(ecg), rhythm)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
