"""FSDP2 of a language model with four micro-batches. Each layer frees its gathered weights after each forward and backward pass, or
after the last backward pass of the step.

regathered.py [stay]
"""
import sys

import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from steps import join, leave, profiler, size, steps

gpu = join()
stay = "stay" in sys.argv
width, heads, words = size(4096, 32), size(32, 2), size(8192, 64)


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
    model = nn.Sequential(nn.Embedding(words, width), *[Block() for _ in range(size(4, 2))], nn.Linear(width, words, bias=False))
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
for layer in model[1:-1]:
    fully_shard(layer, mp_policy=policy, reshard_after_forward=not stay)
fully_shard(model, mp_policy=policy, reshard_after_forward=not stay)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
text = torch.randint(words, (4, size(2, 2), size(256, 8)), device=gpu)
with profiler(active=3, record_shapes=True) as profile:
    for i in steps(size(36, 16)):
        optimizer.zero_grad()
        for micro in range(4):
            model.set_requires_gradient_sync(micro == 3)
            model.set_reshard_after_backward(not stay or micro == 3)
            scores = model(text[micro])
            loss = nn.functional.cross_entropy(scores[:, :-1].flatten(0, 1), text[micro][:, 1:].flatten()) / 4
            loss.backward()
        optimizer.step()
        profile.step()
leave()
