"""JAX: a small transformer; the loss is read each step, or each tenth."""
import sys

import jax
import jax.numpy as jnp
import numpy as np

from steps import steps

every = int(sys.argv[1]) if len(sys.argv) > 1 else 1
width, layers, heads, batch, length = 512, 6, 8, 16, 256
rng = np.random.default_rng(0)


def matrix(*shape):
    return jnp.asarray(rng.normal(size=shape) * 0.02, jnp.float32)


parameters = {"embed": matrix(4096, width), "blocks": [
    {"qkv": matrix(width, 3 * width), "out": matrix(width, width), "up": matrix(width, 4 * width),
     "down": matrix(4 * width, width)} for _ in range(layers)]}


def norm(h):
    return (h - h.mean(-1, keepdims=True)) / jnp.sqrt(h.var(-1, keepdims=True) + 1e-5)


def loss_of(parameters, tokens):
    h = parameters["embed"][tokens]
    for block in parameters["blocks"]:
        q, k, v = (part.reshape(batch, length, heads, -1).transpose(0, 2, 1, 3)
                   for part in jnp.split(norm(h) @ block["qkv"], 3, -1))
        weight = jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) / 8 + jnp.triu(jnp.full((length, length), -1e9), 1))
        h = h + (weight @ v).transpose(0, 2, 1, 3).reshape(h.shape) @ block["out"]
        h = h + jax.nn.gelu(norm(h) @ block["up"]) @ block["down"]
    logits = norm(h) @ parameters["embed"].T
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits[:, :-1]), tokens[:, 1:, None], -1)
    return -picked.mean()


@jax.jit
def update(parameters, tokens):
    loss, gradients = jax.value_and_grad(loss_of)(parameters, tokens)
    return jax.tree_util.tree_map(lambda p, g: p - 1e-3 * g, parameters, gradients), loss


losses = []
for i in steps(60, lambda: jax.block_until_ready(parameters)):
    tokens = rng.integers(4096, size=(batch, length))
    parameters, loss = update(parameters, tokens)
    if i % every == 0:
        losses.append(float(loss))
print(losses[-1])
