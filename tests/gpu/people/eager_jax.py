"""JAX: a deep perceptron fits a function, operation by operation, or under jax.jit.

eager_jax.py [jit]
"""
import sys

import jax
import jax.numpy as jnp
import numpy as np

from steps import steps

width, depth, batch = 1024, 12, 8192
rng = np.random.default_rng(0)
layers = [{"weight": jnp.asarray(rng.normal(size=(width, width)) / 32, jnp.float32), "bias": jnp.zeros(width)}
          for _ in range(depth)]
x = jnp.asarray(rng.normal(size=(batch, width)), jnp.float32)
y = jnp.sin(x)


def loss_of(layers, x, y):
    h = x
    for layer in layers:
        h = h + jnp.tanh(h @ layer["weight"] + layer["bias"])
    return jnp.mean((h - y) ** 2)


def update(layers, x, y):
    loss, gradients = jax.value_and_grad(loss_of)(layers, x, y)
    return jax.tree_util.tree_map(lambda p, g: p - 1e-3 * g, layers, gradients), loss


if "jit" in sys.argv:
    update = jax.jit(update)
for i in steps(40, lambda: jax.block_until_ready(layers)):
    layers, loss = update(layers, x, y)
print(float(loss))
