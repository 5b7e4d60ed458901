"""A vocoder that runs after its training: weight_norm computes each weight again in each call, or once.

vocoder.py [once]
"""
import sys

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

from steps import device, profiler, size, steps

gpu = device()
width, frames = size(256, 16), size(128, 16)


class Block(nn.Module):
    def __init__(self, spread):
        super().__init__()
        self.layers = nn.ModuleList(parametrizations.weight_norm(nn.Conv1d(width, width, 3, padding=spread, dilation=spread))
                                    for _ in range(2))

    def forward(self, x):
        h = x
        for layer in self.layers:
            h = layer(nn.functional.leaky_relu(h, 0.1))
        return x + h


blocks = [Block(3 ** i) for _ in range(6) for i in range(3)]
model = nn.Sequential(*blocks, parametrizations.weight_norm(nn.Conv1d(width, 1, 7, padding=3))).to(gpu).eval()
if "once" in sys.argv:
    for module in model.modules():
        if isinstance(module, nn.Conv1d):
            parametrize.remove_parametrizations(module, "weight")
x = torch.randn(1, width, frames, device=gpu)
with torch.inference_mode(), profiler(active=3) as profile:
    for i in steps(size(200, 16)):
        model(x)
        profile.step()
