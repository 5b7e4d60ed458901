"""JAX: a recurrent net (GRU) reads series of 256 values by lax.scan, whose loop runs one time at once, or 16.

scan.py [unrolled]
"""
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np

from steps import steps

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
large = jax.default_backend() != "cpu"
series, times, width = (256, 256, 256) if large else (4, 16, 16)
unroll = 16 if "unrolled" in sys.argv else 1
rng = np.random.default_rng(0)


def matrix(*shape):
    return jnp.asarray(rng.normal(size=shape) * shape[0] ** -0.5, jnp.bfloat16)


net = {"in": matrix(8, 3 * width), "state": matrix(width, 3 * width), "out": matrix(width, 1)}
x = jnp.asarray(rng.normal(size=(times, series, 8)), jnp.bfloat16)
y = x[..., :1].cumsum(0) / times


def loss_of(net):
    def read(state, now):
        from_input, from_state = now @ net["in"], state @ net["state"]
        reset, keep = jnp.split(jax.nn.sigmoid(from_input + from_state)[:, :2 * width], 2, axis=-1)
        new = jnp.tanh(from_input[:, 2 * width:] + reset * from_state[:, 2 * width:])
        state = keep * state + (1 - keep) * new
        return state, state @ net["out"]

    _, said = jax.lax.scan(read, jnp.zeros((series, width), jnp.bfloat16), x, unroll=unroll)
    return ((said - y).astype(jnp.float32) ** 2).mean()


@jax.jit
def update(net):
    loss, gradients = jax.value_and_grad(loss_of)(net)
    return jax.tree_util.tree_map(lambda p, g: p - 1e-3 * g, net, gradients), loss


for i in steps(40 if large else 8, lambda: jax.block_until_ready(net)):
    net, loss = update(net)
print(float(loss))
