"""A Fourier neural operator for flows on a grid, in double precision as numpy's arrays are, or in single.

fourier.py [single]
"""
import sys

import numpy as np
import torch
from torch import nn

from steps import device, size, steps

gpu = device()
real = np.float32 if "single" in sys.argv else np.float64
flows = np.random.default_rng(0).normal(size=(size(32, 2), 3, size(128, 16), size(128, 16))).astype(real)
width, modes = size(48, 4), size(16, 3)


class Spectral(nn.Module):
    def __init__(self):
        super().__init__()
        self.low, self.high = (nn.Parameter(torch.randn(width, width, modes, modes, 2) / width) for _ in range(2))
        self.local = nn.Conv2d(width, width, 1)

    def forward(self, x):
        waves = torch.fft.rfft2(x)
        out = torch.zeros_like(waves)
        for part, weight in ((slice(modes), self.low), (slice(-modes, None), self.high)):
            out[:, :, part, :modes] = torch.einsum("bixy,ioxy->boxy", waves[:, :, part, :modes], torch.view_as_complex(weight))
        return nn.functional.gelu(torch.fft.irfft2(out, s=x.shape[-2:]) + self.local(x))


x = torch.from_numpy(flows).to(gpu)
model = nn.Sequential(nn.Conv2d(3, width, 1), *[Spectral() for _ in range(4)], nn.Conv2d(width, 3, 1)).to(gpu, x.dtype)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for i in steps(size(40, 8)):
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
