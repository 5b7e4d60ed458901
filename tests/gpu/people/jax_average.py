"""JAX: numpy keeps a moving average of the weights, for which each step copies them to the host, or the device does.

jax_average.py [device]
"""
import sys

import jax
import jax.numpy as jnp
import numpy as np

from steps import steps

large = jax.default_backend() != "cpu"
rows, width = (4096, 2048) if large else (8, 8)
keys = jax.random.split(jax.random.key(0), 5)
net = [jax.random.normal(key, (width, width)) * width ** -0.5 for key in keys[:4]]
x = jax.random.normal(keys[4], (rows, width))
average = list(net) if "device" in sys.argv else [np.asarray(p).copy() for p in net]


def loss_of(net, x):
    h = x
    for layer in net:
        h = jnp.tanh(h @ layer)
    return ((h - x) ** 2).mean()


@jax.jit
def update(net, x):
    return [p - 1e-3 * g for p, g in zip(net, jax.grad(loss_of)(net, x))]


@jax.jit
def averaged(average, net):
    return [0.99 * a + 0.01 * p for a, p in zip(average, net)]


for _ in steps(40 if large else 8, lambda: jax.block_until_ready(net)):
    net = update(net, x)
    if "device" in sys.argv:
        average = averaged(average, net)
        continue
    for a, p in zip(average, net):
        a *= 0.99
        a += 0.01 * np.asarray(p)
