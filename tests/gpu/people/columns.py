"""Triton: softmax over rows by programs that walk through their share of the rows. There are 16 of them, or one per row.

columns.py [grid]
"""
import sys

import torch
import triton
import triton.language as tl

from steps import profiler, steps


@triton.jit
def softmax(out, x, rows, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        value = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf")).to(tl.float32)
        value = tl.exp(value - tl.max(value, 0))
        tl.store(out + row * columns + at, (value / tl.sum(value, 0)).to(tl.bfloat16), mask=at < columns)


rows, width, topics = 8192, 2048, 4096
programs = rows if "grid" in sys.argv else 16
where = {"device": "cuda", "dtype": torch.bfloat16}
x = torch.randn(rows, width, **where)
layers = [(torch.randn(width, topics, **where) * 0.02, torch.randn(topics, width, **where) * 0.02) for _ in range(8)]
share = torch.empty(rows, topics, **where)
with torch.no_grad(), profiler(active=3) as profile:
    for i in steps(60):
        h = x
        for up, down in layers:
            softmax[(programs,)](share, h @ up, rows, topics, BLOCK=4096)
            h = h + share @ down
        profile.step()
