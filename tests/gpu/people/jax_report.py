"""JAX: a perceptron learns; its jitted step reports the loss to the host by jax.debug.callback, or gives it back.

jax_report.py [back]
"""
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np

from steps import steps

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
large = jax.default_backend() != "cpu"
rows, width, depth = (4096, 1024, 8) if large else (16, 16, 2)
report = "back" not in sys.argv
rng = np.random.default_rng(0)
net = [jnp.asarray(rng.normal(size=(width, width)) * (2 / width) ** 0.5, jnp.bfloat16) for _ in range(depth)]
x = jnp.asarray(rng.normal(size=(rows, width)), jnp.bfloat16)
seen = []


def loss_of(net, x):
    h = x
    for layer in net:
        h = jax.nn.relu(h @ layer)
        if report:
            jax.debug.callback(lambda value: seen.append(float(value)), h.mean())
    return ((h - x).astype(jnp.float32) ** 2).mean()


@jax.jit
def update(net, x):
    loss, gradients = jax.value_and_grad(loss_of)(net, x)
    if report:
        jax.debug.callback(lambda value: seen.append(float(value)), loss)
    return [p - 1e-4 * g for p, g in zip(net, gradients)], loss


for i in steps(100 if large else 8, lambda: jax.block_until_ready(net)):
    net, loss = update(net, x)
print(float(loss))
