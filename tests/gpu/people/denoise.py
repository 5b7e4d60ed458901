"""A U-Net takes noise out of pictures with guidance; attention is PyTorch's plain one (math), or its fused one.

denoise.py [fused]
"""
import sys

import torch
from torch import nn

from steps import device, on_gpu, profiler, size, steps

gpu = device()
if "fused" not in sys.argv and on_gpu():
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
half = size(torch.float16, torch.float32)
width, side = size(320, 32), size(64, 8)


class Convolve(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(32, a), nn.SiLU(), nn.Conv2d(a, b, 3, padding=1))
        self.second = nn.Sequential(nn.GroupNorm(32, b), nn.SiLU(), nn.Conv2d(b, b, 3, padding=1))
        self.skip = nn.Conv2d(a, b, 1)

    def forward(self, x):
        return self.skip(x) + self.second(self.first(x))


class Attend(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.norm, self.qkv, self.out = nn.GroupNorm(32, a), nn.Linear(a, 3 * a), nn.Linear(a, a)

    def forward(self, x):
        tokens = self.norm(x).flatten(2).transpose(1, 2)
        q, k, v = (part.unflatten(-1, (8, -1)).transpose(1, 2) for part in self.qkv(tokens).chunk(3, -1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return x + self.out(mixed).transpose(1, 2).reshape(x.shape)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.start, self.end = nn.Conv2d(4, width, 3, padding=1), nn.Conv2d(width, 4, 3, padding=1)
        self.high = nn.Sequential(Convolve(width, width), Attend(width))
        self.down = nn.Conv2d(width, 2 * width, 3, 2, 1)
        self.low = nn.Sequential(Convolve(2 * width, 2 * width), Attend(2 * width), Convolve(2 * width, 2 * width))
        self.up = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.last = nn.Sequential(Convolve(2 * width, width), Attend(width))

    def forward(self, x):
        x = self.high(self.start(x))
        return self.end(self.last(torch.cat([x, self.up(self.low(self.down(x)))], 1)))


model = UNet().to(gpu, half).eval()
x = torch.randn(size(8, 1), 4, side, side, device=gpu, dtype=half)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(36, 16)):
        with torch.no_grad():
            free, guided = model(torch.cat([x, x])).chunk(2)
            x = 0.98 * x + 0.02 * (free + 7.5 * (guided - free))
        profile.step()
