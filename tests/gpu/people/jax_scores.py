"""JAX: a classifier's scores are ranked by numpy on the host after each step, or on the device.

jax_scores.py [device]
"""
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np

from steps import steps

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
large = jax.default_backend() != "cpu"
batch, patches, width, depth, classes = (256, 64, 1024, 8, 2000) if large else (4, 8, 32, 2, 10)
rng = np.random.default_rng(0)


def matrix(*shape):
    return jnp.asarray(rng.normal(size=shape) * 0.5 * shape[0] ** -0.5, jnp.bfloat16)


net = {"blocks": [(matrix(width, 4 * width), matrix(4 * width, width)) for _ in range(depth)], "head": matrix(width, classes)}
x = jnp.asarray(rng.normal(size=(batch, patches, width)), jnp.bfloat16)
labels = rng.integers(classes, size=batch)
y = jnp.asarray(labels)


def loss_of(net, x, y):
    h = x
    for up, down in net["blocks"]:
        h = h + jax.nn.relu(h @ up) @ down
    scores = (h.mean(1) @ net["head"]).astype(jnp.float32)
    return -jax.nn.log_softmax(scores)[jnp.arange(batch), y].mean(), scores


@jax.jit
def update(net, x, y):
    gradients, scores = jax.grad(loss_of, has_aux=True)(net, x, y)
    return jax.tree_util.tree_map(lambda p, g: p - 1e-4 * g, net, gradients), scores


@jax.jit
def count(hits, scores, y):
    return hits + (jax.lax.top_k(scores, 5)[1] == y[:, None]).sum()


hits = 0
for i in steps(40 if large else 8, lambda: jax.block_until_ready(net)):
    net, scores = update(net, x, y)
    if "device" in sys.argv:
        hits = count(hits, scores, y)
    else:
        best = np.argsort(-np.asarray(scores), axis=1)[:, :5]
        hits += (best == labels[:, None]).sum()
print(int(hits))
