"""CuPy: the light of a spectrum at many points, expression by expression, or in one fused kernel.

waves.py [fused]
"""
import sys

import cupy

from steps import steps


def light(x, t):
    wave = cupy.sin(x * 3 + t) * 0.5 + cupy.cos(x * 5 - t) * 0.25
    glow = cupy.exp(-wave * wave) * (1 + wave) / (1 + x * x)
    return cupy.sqrt(glow * glow + 0.1) * 0.9 + x * 0.1


if "fused" in sys.argv:
    light = cupy.fuse(light)
x = cupy.linspace(-1, 1, 1 << 25, dtype=cupy.float32)
for i in steps(60, cupy.cuda.Device().synchronize):
    x = light(x, cupy.float32(i))
