"""JAX: a flow of small layers; the host waits for each step's loss and norm, or reads them at the end.

jax_watch.py [end]
"""
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np

from steps import steps

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
large = jax.default_backend() != "cpu"
rows, width, depth = (2048, 512, 6) if large else (32, 16, 2)
rng = np.random.default_rng(0)
net = [jnp.asarray(rng.normal(size=(2, width, width)) * width ** -0.5, jnp.float32) for _ in range(depth)]
x = jnp.asarray(rng.normal(size=(rows, width)), jnp.float32)


def loss_of(net, x):
    h = x
    for pair in net:
        h = h + jnp.tanh(h @ pair[0]) @ pair[1]
    return jnp.mean((h - 2 * x) ** 2)


@jax.jit
def update(net, x):
    loss, gradients = jax.value_and_grad(loss_of)(net, x)
    return [p - 1e-3 * g for p, g in zip(net, gradients)], loss, sum(jnp.sum(g * g) for g in gradients)


seen = []
for i in steps(200 if large else 8, lambda: jax.block_until_ready(net)):
    net, loss, norm = update(net, x)
    seen.append((loss, norm) if "end" in sys.argv else (float(loss), float(norm)))
