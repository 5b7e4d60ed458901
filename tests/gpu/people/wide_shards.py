"""FSDP2 of a language model without a policy of precision, or with parameters and gradients in bf16.

wide_shards.py [bf16]
"""
import sys

import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from steps import join, leave, profiler, size, steps

gpu = join()
width, heads, words = size(2048, 32), size(16, 2), size(16384, 64)
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16) if "bf16" in sys.argv else MixedPrecisionPolicy()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, heads, width // heads)).permute(2, 0, 3, 1, 4)
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


with gpu:
    model = nn.Sequential(nn.Embedding(words, width), *[Block() for _ in range(size(8, 2))], nn.Linear(width, words, bias=False))
for layer in model[1:-1]:
    fully_shard(layer, mp_policy=policy)
fully_shard(model, mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
text = torch.randint(words, (size(4, 2), size(1024, 8)), device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(36, 16)):
        optimizer.zero_grad()
        scores = model(text)
        nn.functional.cross_entropy(scores[:, :-1].flatten(0, 1).float(), text[:, 1:].flatten()).backward()
        optimizer.step()
        profile.step()
leave()
