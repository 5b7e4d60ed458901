"""JAX: the loss is jitted as a new function in each step, which is traced and compiled again, or once before.

jax_lambda.py [once]
"""
import sys

import jax
import jax.numpy as jnp

from steps import steps

large = jax.default_backend() != "cpu"
rows, width = (2048, 1024) if large else (8, 8)
keys = jax.random.split(jax.random.key(0), 5)
net = [jax.random.normal(key, (width, width), jnp.bfloat16) * width ** -0.5 for key in keys[:4]]
x = jax.random.normal(keys[4], (rows, width), jnp.bfloat16)


def make():
    def loss_of(net):
        h = x
        for layer in net:
            h = jax.nn.gelu(h @ layer)
        return ((h - x).astype(jnp.float32) ** 2).mean()
    return jax.jit(lambda net: [p - 1e-3 * g for p, g in zip(net, jax.grad(loss_of)(net))])


update = make()
for _ in steps(24 if large else 8, lambda: jax.block_until_ready(net)):
    if "once" not in sys.argv:
        update = make()
    net = update(net)
