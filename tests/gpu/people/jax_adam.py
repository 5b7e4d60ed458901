"""JAX: a net cleans the frames of a noisy recording. Its gradient is under jax.jit. Adam is written with jax.tree.map after it,
operation by operation, or under jax.jit too.

jax_adam.py [jit]
"""
import sys

import jax
import jax.numpy as jnp

from steps import steps

large = jax.default_backend() != "cpu"
frames, width, depth = (16384, 512, 16) if large else (16, 16, 2)


def layer(key):
    up, down = jax.random.split(key)
    return {"up": jax.random.normal(up, (width, 4 * width)) * width ** -0.5, "more": jnp.zeros(4 * width),
            "down": jax.random.normal(down, (4 * width, width)) * 0.1 * width ** -0.5, "scale": jnp.ones(width)}


net = [layer(key) for key in jax.random.split(jax.random.key(0), depth)]
clean = jax.random.normal(jax.random.key(1), (frames, width), jnp.bfloat16)
noisy = clean + 0.1 * jax.random.normal(jax.random.key(2), clean.shape, jnp.bfloat16)


@jax.jit
def gradient(net, noisy, clean):
    def loss_of(net):
        h = noisy
        for one in net:
            part = {name: value.astype(jnp.bfloat16) for name, value in one.items()}
            h = h + part["scale"] * (jax.nn.relu(h @ part["up"] + part["more"]) @ part["down"])
        return ((h - clean).astype(jnp.float32) ** 2).mean()
    return jax.grad(loss_of)(net)


def adam(net, first, second, change, step):
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, change)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, change)
    rate = 1e-4 * (1 - 0.999 ** step) ** 0.5 / (1 - 0.9 ** step)
    return jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), net, first, second), first, second


update = jax.jit(adam) if "jit" in sys.argv else adam
first = second = jax.tree.map(jnp.zeros_like, net)
for i in steps(40 if large else 8, lambda: jax.block_until_ready(net)):
    net, first, second = update(net, first, second, gradient(net, noisy, clean), i + 1)
