"""A net with weight norm of old, which makes each weight anew in each pass, or with the weights as they are.

whitened.py [plain]
"""
import sys
import warnings

import torch
from torch import nn

from steps import device, profiler, size, steps

warnings.filterwarnings("ignore")
gpu = device()
channels, samples = size(64, 4), size(2048, 32)


def conv(dilation):
    one = nn.Conv1d(channels, channels, 3, padding=dilation, dilation=dilation)
    return one if "plain" in sys.argv else torch.nn.utils.parametrizations.weight_norm(one)


model = nn.Sequential(*[layer for i in range(size(40, 3)) for layer in (conv(2 ** (i % 8)), nn.LeakyReLU())]).to(gpu)
x = torch.randn(size(8, 2), channels, samples, device=gpu)
with torch.no_grad(), profiler() as profile:
    for _ in steps(size(80, 8)):
        model(x)
        profile.step()
