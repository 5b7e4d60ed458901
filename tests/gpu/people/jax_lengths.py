"""JAX: sentences of other lengths in each step are compiled again, or padded to one length.

jax_lengths.py [padded]
"""
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np

from steps import steps

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=0")  # which takes seconds for each length
large = jax.default_backend() != "cpu"
batch, longest, width, words = (32, 256, 512, 8000) if large else (2, 24, 16, 50)
count = 10 if large else 8
rng = np.random.default_rng(0)
lengths = longest // 2 + rng.permutation(count) * longest // 2 // count
net = {"table": jnp.asarray(rng.normal(size=(words, width)) * 0.02, jnp.float32),
       "mix": jnp.asarray(rng.normal(size=(4, width, width)) * width ** -0.5, jnp.float32)}


def loss_of(net, tokens):
    h = net["table"][tokens]
    for mix in net["mix"]:
        share = jax.nn.softmax(h @ h.swapaxes(1, 2) / width ** 0.5)
        h = h + jax.nn.gelu(share @ h @ mix)
    score = jax.nn.log_softmax(h[:, :-1] @ net["table"].T)
    goal = jnp.take_along_axis(score, tokens[:, 1:, None], 2)
    return -jnp.sum(goal[..., 0] * (tokens[:, 1:] > 0)) / jnp.sum(tokens[:, 1:] > 0)


@jax.jit
def update(net, tokens):
    loss, gradients = jax.value_and_grad(loss_of)(net, tokens)
    return jax.tree_util.tree_map(lambda p, g: p - 1e-2 * g, net, gradients), loss


for i in steps(count, lambda: jax.block_until_ready(net)):
    tokens = rng.integers(1, words, (batch, lengths[i]))
    if "padded" in sys.argv:
        tokens = np.pad(tokens, ((0, 0), (0, longest - tokens.shape[1])))
    net, loss = update(net, jnp.asarray(tokens))
