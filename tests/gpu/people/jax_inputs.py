"""JAX: a mixer of patches; each step copies its pictures from numpy's arrays, or all pictures are on the device before the first.

jax_inputs.py [resident]
"""
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np

from steps import steps

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
large = jax.default_backend() != "cpu"
batch, patches, width, depth = (128, 196, 768, 4) if large else (2, 16, 32, 2)
rng = np.random.default_rng(0)


def matrix(*shape):
    return jnp.asarray(rng.normal(size=shape) * shape[0] ** -0.5, jnp.bfloat16)


blocks = [{"across": matrix(patches, patches), "up": matrix(width, 4 * width), "down": matrix(4 * width, width)}
          for _ in range(depth)]
pictures = [rng.random((batch, patches, width), dtype=np.float32) for _ in range(4)]
if "resident" in sys.argv:
    pictures = [jax.device_put(one) for one in pictures]


def loss_of(blocks, x):
    h = x = x.astype(jnp.bfloat16)
    for block in blocks:
        h = h + jnp.einsum("bpw,pq->bqw", h, block["across"])
        h = h + jax.nn.relu(h @ block["up"]) @ block["down"]
    return jnp.mean((h - x).astype(jnp.float32) ** 2)


@jax.jit
def update(blocks, x):
    loss, gradients = jax.value_and_grad(loss_of)(blocks, x)
    return jax.tree_util.tree_map(lambda p, g: p - 1e-5 * g, blocks, gradients), loss


losses = []
for i in steps(60 if large else 8, lambda: jax.block_until_ready(blocks)):
    blocks, loss = update(blocks, jnp.asarray(pictures[i % 4]))
    losses.append(float(loss))
print(losses[-1])
