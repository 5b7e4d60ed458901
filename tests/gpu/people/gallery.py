"""DDP of an autoencoder of pictures (VAE). Rank 0 writes four pictures to a PNG file after each step, or after each fiftieth.

gallery.py [seldom]
"""
import os
import sys
import tempfile

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torchvision.io import write_png
from torchvision.utils import make_grid

from steps import RANK, join, leave, size, steps

gpu = join()
every = 50 if "seldom" in sys.argv else 1
side, batch, wide = size(128, 32), size(192, 2), size(96, 8)
widths = [3, wide, 2 * wide, 4 * wide, 8 * wide]


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inward = nn.Sequential(*[m for a, b in zip(widths, widths[1:])
                                      for m in (nn.Conv2d(a, b, 4, 2, 1), nn.BatchNorm2d(b), nn.SiLU())])
        self.code, self.spread = nn.Conv2d(8 * wide, 64, 1), nn.Conv2d(8 * wide, 64, 1)
        self.open = nn.Conv2d(64, 8 * wide, 1)
        self.outward = nn.Sequential(*[m for a, b in zip(widths[:1:-1], widths[-2:0:-1])
                                       for m in (nn.ConvTranspose2d(a, b, 4, 2, 1), nn.BatchNorm2d(b), nn.SiLU())],
                                     nn.ConvTranspose2d(wide, 3, 4, 2, 1), nn.Sigmoid())

    def forward(self, x):
        h = self.inward(x)
        code, spread = self.code(h), self.spread(h)
        near = (code ** 2 + spread.exp() - spread - 1).mean()
        return self.outward(self.open(code + torch.randn_like(code) * (0.5 * spread).exp())), near


model = DistributedDataParallel(Autoencoder().to(gpu, memory_format=torch.channels_last))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
x = torch.rand(batch, 3, side, side, device=gpu).to(memory_format=torch.channels_last)
with tempfile.TemporaryDirectory() as folder:
    for i in steps(size(40, 8)):
        with torch.autocast(gpu.type, dtype=torch.bfloat16):
            again, near = model(x)
            loss = nn.functional.mse_loss(again, x) + 1e-3 * near
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if RANK == 0 and i % every == 0:
            picture = make_grid(again[:4].detach().float(), nrow=2)
            write_png((picture * 255).to(torch.uint8).cpu(), os.path.join(folder, f"{i}.png"))
leave()
