"""JAX: 32 small nets learn at the same time. Python calls a jitted step for each, or jax.vmap makes one step of them.

members.py [vmap]
"""
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np

from steps import steps

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
large = jax.default_backend() != "cpu"
members, rows, width = (32, 512, 128) if large else (4, 8, 8)
rng = np.random.default_rng(0)
nets = {name: jnp.asarray(rng.normal(size=(members, width, width)) * width ** -0.5, jnp.float32) for name in ("a", "b", "c")}
x = jnp.asarray(rng.normal(size=(rows, width)), jnp.float32)


def loss_of(net, x):
    return jnp.mean((jnp.tanh(jnp.tanh(x @ net["a"]) @ net["b"]) @ net["c"] - jnp.sin(x)) ** 2)


def update(net, x):
    return jax.tree_util.tree_map(lambda p, g: p - 1e-2 * g, net, jax.grad(loss_of)(net, x))


one, together = jax.jit(update), jax.jit(jax.vmap(update, (0, None)))
apart = [jax.tree_util.tree_map(lambda leaf, i=i: leaf[i], nets) for i in range(members)]
for i in steps(100 if large else 8, lambda: jax.block_until_ready((nets, apart))):
    if "vmap" in sys.argv:
        nets = together(nets, x)
    else:
        apart = [one(net, x) for net in apart]
