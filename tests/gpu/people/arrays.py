"""Numba: waves in a pond; each step's kernels take NumPy's arrays, or arrays of the device.

arrays.py [device]
"""
import sys

import numpy
from numba import cuda

from steps import steps


@cuda.jit
def advance(after, now, before, speed):
    x, y = cuda.grid(2)
    if 0 < x < now.shape[0] - 1 and 0 < y < now.shape[1] - 1:
        bend = now[x - 1, y] + now[x + 1, y] + now[x, y - 1] + now[x, y + 1] - 4 * now[x, y]
        after[x, y] = 2 * now[x, y] - before[x, y] + speed * bend


pond = [numpy.zeros((2048, 2048), numpy.float32) for _ in range(3)]
pond[1][1024, 1024] = 1
if "device" in sys.argv:
    pond = [cuda.to_device(each) for each in pond]
after, now, before = pond
for i in steps(30, cuda.synchronize):
    for _ in range(4):
        advance[(128, 128), (16, 16)](after, now, before, numpy.float32(0.2))
        after, now, before = before, after, now
