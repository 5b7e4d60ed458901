"""JAX: an orbit model is fitted with 64-bit numbers, or with 32-bit ones.

orbits.py [narrow]
"""
import sys

import jax
import jax.numpy as jnp

from steps import steps

jax.config.update("jax_enable_x64", "narrow" not in sys.argv)
large = jax.default_backend() != "cpu"
rows, width = (8192, 1024) if large else (16, 16)
keys = jax.random.split(jax.random.key(0), 4)
kind = jnp.float32 if "narrow" in sys.argv else jnp.float64
net = [jax.random.normal(key, (width, width), kind) * (1 / width) ** 0.5 for key in keys[:3]]
x = jax.random.normal(keys[3], (rows, width), kind)


def loss_of(net, x):
    h = x
    for layer in net:
        h = jnp.tanh(h @ layer)
    return ((h - jnp.sin(x)) ** 2).mean()


@jax.jit
def update(net, x):
    loss, gradients = jax.value_and_grad(loss_of)(net, x)
    return [p - 1e-3 * g for p, g in zip(net, gradients)], loss


for _ in steps(40 if large else 8, lambda: jax.block_until_ready(net)):
    net, loss = update(net, x)
print(float(loss))
