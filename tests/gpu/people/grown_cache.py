"""A decoder writes eight tokens after a long prompt. Its cache of keys and values grows by torch.cat with each token, or has space
for all tokens from the start.

grown_cache.py [space]
"""
import sys

import torch
from torch import nn

from steps import device, size, steps

gpu = device()
half = torch.bfloat16
space = "space" in sys.argv
width, heads, depth, batch = size(2048, 32), size(16, 2), size(4, 2), size(32, 2)
prompt, tokens, words = size(2048, 16), 8, size(32000, 100)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, cache, at):
        q, k, v = self.qkv(self.norm1(x)).view(batch, 1, 3, heads, -1).permute(2, 0, 3, 1, 4)
        if space:
            cache[0][:, :, at:at + 1], cache[1][:, :, at:at + 1] = k, v
            k, v = cache[0][:, :, :at + 1], cache[1][:, :, :at + 1]
        else:
            k, v = cache[:] = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


with gpu:
    embed, blocks, head = nn.Embedding(words, width), nn.ModuleList(Block() for _ in range(depth)), nn.Linear(width, words)
for module in (embed, blocks, head):
    module.to(half)
most = prompt + tokens if space else prompt
caches = [[torch.randn(batch, heads, most, width // heads, device=gpu, dtype=half) for _ in range(2)] for _ in range(depth)]
for i in steps(size(40, 8)):
    with torch.inference_mode():
        token, answer = torch.randint(words, (batch, 1), device=gpu), [list(cache) for cache in caches]
        for at in range(prompt, prompt + tokens):
            h = embed(token)
            for block, cache in zip(blocks, answer):
                h = block(h, cache, at)
            token = head(h).argmax(-1)
