"""Triton: layers whose product is a kernel of their own, in fp32 without tensor cores (ieee), or with them (tf32).

dots.py [tf32]
"""
import sys

import torch
import triton
import triton.language as tl

from steps import profiler, steps

precision = "tf32" if "tf32" in sys.argv else "ieee"


@triton.jit
def multiply(out, left, right, rows, columns, depth, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
             PRECISION: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    sums = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for begin in range(0, depth, DEPTH):
        at = begin + tl.arange(0, DEPTH)
        a = tl.load(left + row[:, None] * depth + at[None, :])
        b = tl.load(right + at[:, None] * columns + column[None, :])
        sums += tl.dot(a, b, input_precision=PRECISION)
    tl.store(out + row[:, None] * columns + column[None, :], tl.maximum(sums, 0))


rows, width = 4096, 2048
x = torch.randn(rows, width, device="cuda")
layers = [torch.randn(width, width, device="cuda") * (2 / width) ** 0.5 for _ in range(12)]
spaces = torch.empty(2, rows, width, device="cuda")
with profiler(active=3) as profile:
    for i in steps(60):
        h = x
        for at, layer in enumerate(layers):
            out = spaces[at % 2]
            multiply[(rows // 64, width // 64)](out, h, layer, rows, width, width, ROWS=64, COLUMNS=64, DEPTH=32,
                                                PRECISION=precision)
            h = out
        profile.step()
print(h.mean().item())
