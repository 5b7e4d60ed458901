"""Triton: a softmax and a sum by hand; the loop's condition is read from the device each tenth step."""
import torch
import triton
import triton.language as tl

from steps import steps


@triton.jit
def softmax(out, x, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    value = tl.load(x + row + at, mask=at < columns, other=-float("inf"))
    value = tl.exp(value - tl.max(value, 0))
    tl.store(out + row + at, value / tl.sum(value, 0), mask=at < columns)


@triton.jit
def blend(x, y, share, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    a = tl.load(x + at, mask=inside)
    tl.store(x + at, a + share * (tl.load(y + at, mask=inside) - a), mask=inside)


x = torch.randn(8192, 1000, device="cuda")
y = torch.empty_like(x)
for i in steps(300):
    softmax[(x.shape[0],)](y, x, x.shape[1], BLOCK=1024)
    blend[(triton.cdiv(x.numel(), 1024),)](x, y, 0.1, x.numel(), BLOCK=1024)
    if i % 10 == 9 and (x - y).abs().max().item() < 1e-9:
        print("near", i)
