"""JAX: a small language model in bf16. Its attention is written out with a softmax, or is cuDNN's fused one.

jax_attention.py [fused]
"""
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np

from steps import steps

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
large = jax.default_backend() != "cpu"
width, depth, heads, batch, length, words = (1024, 3, 16, 8, 2048, 8192) if large else (32, 2, 2, 2, 16, 100)
rng = np.random.default_rng(0)


def matrix(*shape):
    return jnp.asarray(rng.standard_normal(shape, np.float32) * shape[0] ** -0.5, jnp.bfloat16)


net = {"embed": matrix(words, width), "blocks": [
    {"qkv": matrix(width, 3 * width), "out": matrix(width, width), "up": matrix(width, 4 * width),
     "down": matrix(4 * width, width)} for _ in range(depth)]}
past = jnp.tril(jnp.ones((length, length), bool))


def attention(q, k, v):
    if "fused" in sys.argv:
        return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="cudnn" if large else None)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) * q.shape[-1] ** -0.5
    weight = jax.nn.softmax(jnp.where(past, scores, -1e9), axis=-1).astype(v.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", weight, v)


def norm(h):
    return h * jax.lax.rsqrt((h * h).mean(-1, keepdims=True) + 1e-5)


def loss_of(net, text):
    h = net["embed"][text]
    for block in net["blocks"]:
        q, k, v = (part.reshape(batch, length, heads, -1) for part in jnp.split(norm(h) @ block["qkv"], 3, -1))
        h = h + attention(q, k, v).reshape(h.shape) @ block["out"]
        h = h + jax.nn.gelu(norm(h) @ block["up"]) @ block["down"]
    scores = (norm(h) @ net["embed"].T)[:, :-1].astype(jnp.float32)
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), text[:, 1:, None], -1).mean()


@jax.jit
def update(net, text):
    return jax.tree_util.tree_map(lambda p, g: p - 1e-2 * g, net, jax.grad(loss_of)(net, text))


text = jnp.asarray(rng.integers(words, size=(batch, length)))
for i in steps(40 if large else 8, lambda: jax.block_until_ready(net)):
    net = update(net, text)
