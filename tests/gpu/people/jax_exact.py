"""JAX: a net of float32 layers is trained with products of the highest precision, or of the usual one.

jax_exact.py [usual]
"""
import sys

import jax
import jax.numpy as jnp

from steps import steps

if "usual" not in sys.argv:
    jax.config.update("jax_default_matmul_precision", "highest")
large = jax.default_backend() != "cpu"
width, batch, depth = (4096, 4096, 6) if large else (32, 8, 2)
net = [jax.random.normal(key, (width, width)) * width ** -0.5 for key in jax.random.split(jax.random.key(0), depth)]
x = jax.random.normal(jax.random.key(1), (batch, width))


def loss_of(net, x):
    h = x
    for layer in net:
        h = h + jax.nn.gelu(h @ layer)
    return ((h - x) ** 2).mean()


@jax.jit
def update(net, x):
    return [p - 1e-3 * g for p, g in zip(net, jax.grad(loss_of)(net, x))]


for i in steps(40 if large else 8, lambda: jax.block_until_ready(net)):
    net = update(net, x)
