"""CuPy: k-means; the shift of the centres is read each step."""
import cupy

from steps import steps

rng = cupy.random.default_rng(0)
points = rng.standard_normal((200000, 32), dtype=cupy.float32)
centres = points[:64].copy()
for i in steps(60, cupy.cuda.Device().synchronize):
    far = (points ** 2).sum(1)[:, None] - 2 * points @ centres.T + (centres ** 2).sum(1)[None]
    nearest = far.argmin(1)
    moved = cupy.zeros_like(centres)
    cupy.add.at(moved, nearest, points)
    count = cupy.bincount(nearest, minlength=64)
    moved /= cupy.maximum(count, 1)[:, None]
    shift = float(cupy.abs(moved - centres).max())
    centres = moved
print(shift)
