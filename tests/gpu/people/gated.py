"""Triton: gated layers (SwiGLU) in bf16. What their kernel reads is widened to fp32 and what it writes is narrowed again, or the
kernel reads and writes bf16 itself.

gated.py [inside]
"""
import sys

import torch
import triton
import triton.language as tl

from steps import profiler, steps


@triton.jit
def gate(out, both, hidden, BLOCK: tl.constexpr):
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(0)
    first = tl.load(both + row * 2 * hidden + at, mask=at < hidden, other=0.0).to(tl.float32)
    second = tl.load(both + row * 2 * hidden + hidden + at, mask=at < hidden, other=0.0).to(tl.float32)
    tl.store(out + row * hidden + at, first * tl.sigmoid(first) * second, mask=at < hidden)


def gated(both):
    values = both if "inside" in sys.argv else both.float()
    rows, hidden = both.shape[0], both.shape[1] // 2
    out = torch.empty(rows, hidden, device=both.device, dtype=values.dtype)
    gate[(rows, triton.cdiv(hidden, 1024))](out, values, hidden, BLOCK=1024)
    return out.to(both.dtype)


where = {"device": "cuda", "dtype": torch.bfloat16}
rows, width, hidden = 16384, 2048, 6144
layers = [(torch.randn(width, 2 * hidden, **where) * 0.02, torch.randn(hidden, width, **where) * 0.01) for _ in range(8)]
x = torch.randn(rows, width, **where)
with torch.no_grad(), profiler(active=3, record_shapes=True) as profile:
    for i in steps(40):
        h = x
        for up, down in layers:
            h = h + gated(h @ up) @ down
        profile.step()
