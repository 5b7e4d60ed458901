"""CuPy: paths of a price whose variance varies (Heston), operation by operation, or by one kernel for each time.

heston.py [kernel]
"""
import sys

import cupy

from steps import steps

paths, times, dt, rate, back, mean, vary = 16_000_000, 12, 1 / 252, 0.03, 2.0, 0.04, 0.3
advance = cupy.ElementwiseKernel(
    "float32 price, float32 variance, float32 z1, float32 z2, float32 dt, float32 rate, float32 back, float32 mean, float32 vary",
    "float32 next_price, float32 next_variance",
    """
    float v = max(variance, 0.0f), root = sqrtf(v * dt);
    next_price = price * expf((rate - 0.5f * v) * dt + root * z1);
    next_variance = variance + back * (mean - v) * dt + vary * root * z2;
    """, "heston")
for i in steps(30, cupy.cuda.Device().synchronize):
    price, variance = cupy.full(paths, 100, cupy.float32), cupy.full(paths, mean, cupy.float32)
    for _ in range(times):
        z1, other = cupy.random.standard_normal((2, paths), dtype=cupy.float32)
        z2 = 0.8 * other - 0.6 * z1
        if "kernel" in sys.argv:
            price, variance = advance(price, variance, z1, z2, dt, rate, back, mean, vary)
        else:
            v = cupy.maximum(variance, 0)
            root = cupy.sqrt(v * dt)
            price = price * cupy.exp((rate - 0.5 * v) * dt + root * z1)
            variance = variance + back * (mean - v) * dt + vary * root * z2
    payoff = cupy.maximum(price - 100, 0).mean()
print(float(payoff))
