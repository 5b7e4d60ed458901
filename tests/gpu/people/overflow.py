"""An encoder of texts answers in fp16. Each layer asks twice whether its values are infinite and clamps them then, as T5 did, or it
clamps them always.

overflow.py [always]
"""
import sys

import torch
from torch import nn

from steps import device, on_gpu, size, steps

gpu = device()
half = torch.float16 if on_gpu() else torch.float32
always = "always" in sys.argv
width, heads, depth, length, batch = size(1024, 32), size(16, 2), size(24, 2), size(128, 8), size(8, 2)
limit = torch.finfo(half).max - 1000


def finite(x):
    if always or torch.isinf(x).any():
        x = x.clamp(-limit, limit)
    return x


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, heads, width // heads)).permute(2, 0, 3, 1, 4)
        x = finite(x + self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)))
        return finite(x + self.down(self.up(self.norm2(x)).relu()))


model = nn.Sequential(nn.Embedding(32000, width), *[Layer() for _ in range(depth)], nn.LayerNorm(width)).to(gpu, half).eval()
text = torch.randint(32000, (batch, length), device=gpu)
answers = []
for i in steps(size(120, 8)):
    with torch.inference_mode():
        answers.append(model(text).mean(1))
print(len(answers))
