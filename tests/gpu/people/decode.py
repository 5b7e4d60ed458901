"""A decoder writes 16 tokens after a prompt, with a cache of keys and values: the host launches each token's kernels, or a graph
does.

decode.py [graph]
"""
import sys

import torch
from torch import nn

from steps import device, size, steps

gpu = device()
half = torch.bfloat16
where = {"device": gpu, "dtype": half}
width, heads, batch = size(1024, 32), size(16, 2), size(8, 2)
prompt, answer, longest = size(512, 8), size(16, 4), size(1024, 32)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, **where), nn.LayerNorm(width, **where)
        self.qkv, self.out = nn.Linear(width, 3 * width, **where), nn.Linear(width, width, **where)
        self.up, self.down = nn.Linear(width, 4 * width, **where), nn.Linear(4 * width, width, **where)
        self.keys, self.values = torch.randn(2, batch, heads, longest, width // heads, **where)

    def forward(self, x, at, seen):
        q, k, v = (part.view(batch, 1, heads, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        self.keys.index_copy_(2, at, k)
        self.values.index_copy_(2, at, v)
        mixed = nn.functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


embed, place = nn.Embedding(32000, width, **where), nn.Embedding(longest, width, **where)
blocks = [Block() for _ in range(size(16, 2))]
norm, head = nn.LayerNorm(width, **where), nn.Linear(width, 32000, bias=False, **where)
token, at = torch.zeros(batch, 1, dtype=torch.long, device=gpu), torch.full((1,), prompt, device=gpu)
positions = torch.arange(longest, device=gpu)


def write_token():
    x = embed(token) + place(at)
    seen = (positions <= at).view(1, 1, 1, longest)
    for block in blocks:
        x = block(x, at, seen)
    token.copy_(head(norm(x)).argmax(-1))
    at.add_(1)


with torch.no_grad():
    if "graph" in sys.argv and gpu.type == "cuda":
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                write_token()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            write_token()
        write_token = graph.replay
    for i in steps(size(48, 8)):
        at.fill_(prompt)
        text = []
        for _ in range(answer):
            write_token()
            text.append(token.clone())
print(torch.cat(text, 1).shape)
