"""Reinforcement: a net learns values of actions from frames of a game. A list on the host has the frames, whose batches are stacked
and made fp32 by numpy, or a tensor on the device has them.

replay.py [device]
"""
import sys

import numpy as np
import torch
from torch import nn

from steps import device, size, steps

gpu = device()
batch, side, count, actions = size(256, 4), 84, size(4096, 32), 6
rng = np.random.default_rng(0)
frames = [rng.integers(0, 256, (4, side, side), dtype=np.uint8) for _ in range(count)]
where = gpu if "device" in sys.argv else torch.device("cpu")
deeds, gains = torch.randint(actions, (count,), device=gpu), torch.randn(count, device=gpu)
stored = torch.from_numpy(np.stack(frames)).to(gpu)


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        convolutions = [nn.Conv2d(width, width, 3, padding=1) for _ in range(2)]
        self.body = nn.Sequential(nn.ReLU(), convolutions[0], nn.ReLU(), convolutions[1])

    def forward(self, x):
        return x + self.body(x)


def values():
    parts, widths = [], size((4, 128, 256, 256), (4, 8, 8, 8))
    for inner, outer in zip(widths, widths[1:]):
        parts += [nn.Conv2d(inner, outer, 3, padding=1), nn.MaxPool2d(3, 2, 1), Residual(outer), Residual(outer)]
    parts += [nn.ReLU(), nn.Flatten(), nn.Linear(widths[-1] * 11 * 11, 256), nn.ReLU(), nn.Linear(256, actions)]
    return nn.Sequential(*parts).to(gpu, memory_format=torch.channels_last)


def states(chosen):
    if "device" in sys.argv:
        return stored[chosen].float() / 255
    return torch.from_numpy(np.stack([frames[i] for i in chosen.tolist()]).astype(np.float32) / 255).to(gpu)


model, target = values(), values()
target.load_state_dict(model.state_dict())
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
for i in steps(size(40, 8)):
    chosen = torch.randint(count - 1, (batch,), device=where)
    with torch.autocast(gpu.type, dtype=torch.bfloat16):
        with torch.no_grad():
            later = target(states(chosen + 1)).max(1).values.float()
        guess = model(states(chosen)).float()
    at = chosen.to(gpu)
    loss = nn.functional.smooth_l1_loss(guess.gather(1, deeds[at, None])[:, 0], gains[at] + 0.99 * later)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
