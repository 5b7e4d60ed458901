"""CuPy: topics of documents by a factorization without negative values. CuPy's pool of memory is switched off, so that another
library gets all memory, or is on as usual.

topics.py [pool]
"""
import sys

import cupy

from steps import steps

if "pool" not in sys.argv:
    cupy.cuda.set_allocator(None)
documents, words, topics, small = 16384, 8192, 256, cupy.float32(1e-6)
rng = cupy.random.default_rng(0)
counts = rng.random((documents, words), dtype=cupy.float32)
share = rng.random((documents, topics), dtype=cupy.float32)
word = rng.random((topics, words), dtype=cupy.float32)
for i in steps(40, cupy.cuda.Device().synchronize):
    for _ in range(4):
        word = word * (share.T @ counts) / (share.T @ share @ word + small)
        share = share * (counts @ word.T) / (share @ (word @ word.T) + small)
print(float(cupy.abs(word).max()))
