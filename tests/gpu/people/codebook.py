"""An autoencoder whose code is the nearest of 1024 vectors (VQ-VAE). Distances are sums over all differences, or those of cdist.

codebook.py [cdist]
"""
import sys

import torch
from torch import nn

from steps import device, profiler, size, steps

gpu = device()
batch, side, width, vectors = size(64, 2), size(128, 16), size(192, 16), size(1024, 20)
last = torch.channels_last


def nearest(z, table):
    if "cdist" in sys.argv:
        return torch.cdist(z, table).argmin(1)
    return (z[:, None] - table[None]).square().sum(-1).argmin(1)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 1))

    def forward(self, x):
        return x + self.body(x)


class Codes(nn.Module):
    def __init__(self):
        super().__init__()
        down = [nn.Conv2d(3, width, 4, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 4, 2, 1), nn.ReLU(),
                nn.Conv2d(width, width, 4, 2, 1)]
        up = [nn.ConvTranspose2d(width, width, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(width, width, 4, 2, 1), nn.ReLU(),
              nn.ConvTranspose2d(width, 3, 4, 2, 1)]
        self.encode = nn.Sequential(*down, *[Residual() for _ in range(4)], nn.Conv2d(width, 64, 1))
        self.decode = nn.Sequential(nn.Conv2d(64, width, 1), *[Residual() for _ in range(4)], *up)
        self.table = nn.Parameter(torch.randn(vectors, 64))

    def forward(self, x):
        z = self.encode(x).permute(0, 2, 3, 1).float()
        flat = z.flatten(0, 2)
        with torch.no_grad():
            number = nearest(flat, self.table)
        code = nn.functional.embedding(number, self.table).view(z.shape)
        off = (code - z.detach()).square().mean() + 0.25 * (code.detach() - z).square().mean()
        return self.decode((z + (code - z).detach()).permute(0, 3, 1, 2)), off


model = Codes().to(gpu, memory_format=last)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
x = torch.randn(batch, 3, side, side, device=gpu).to(memory_format=last)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(40, 16)):
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            again, off = model(x)
        loss = (again.float() - x).square().mean() + off
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profile.step()
