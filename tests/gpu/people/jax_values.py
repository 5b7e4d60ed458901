"""JAX: twenty figures of each step are made and read one after the other, or are made with the step and read together.

jax_values.py [together]
"""
import sys

import jax
import jax.numpy as jnp
import numpy as np

from steps import steps

large = jax.default_backend() != "cpu"
rows, width = (4096, 1024) if large else (8, 8)
keys = jax.random.split(jax.random.key(0), 11)
net = [jax.random.normal(key, (width, width)) * width ** -0.5 for key in keys[:10]]
x = jax.random.normal(keys[10], (rows, width))


def loss_of(net, x):
    h = x
    for layer in net:
        h = jnp.tanh(h @ layer)
    return ((h - x) ** 2).mean()


@jax.jit
def update(net, x):
    gradients = jax.grad(loss_of)(net, x)
    figures = jnp.stack([f(g) for g in gradients for f in (jnp.linalg.norm, jnp.max)])
    return [p - 1e-3 * g for p, g in zip(net, gradients)], gradients, figures


journal = []
for _ in steps(80 if large else 8, lambda: jax.block_until_ready(net)):
    net, gradients, figures = update(net, x)
    if "together" in sys.argv:
        journal.append(np.asarray(figures))
    else:
        journal.append([float(f(g)) for g in gradients for f in (jnp.linalg.norm, jnp.max)])
