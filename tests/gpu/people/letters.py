"""JAX: a recurrent net writes letters; the host reads each letter before the next, or a scan writes all.

letters.py [scan]
"""
import sys

import jax
import jax.numpy as jnp

from steps import steps

large = jax.default_backend() != "cpu"
width, letters, length = (1024, 96, 64) if large else (16, 12, 4)
keys = jax.random.split(jax.random.key(0), 3)
table, cell, head = (jax.random.normal(keys[0], (letters, width)), jax.random.normal(keys[1], (width, width)) * width ** -0.5,
                     jax.random.normal(keys[2], (width, letters)))


@jax.jit
def letter_after(state, letter):
    state = jnp.tanh(state @ cell + table[letter])
    return state, jnp.argmax(state @ head)


@jax.jit
def text_of(state, letter):
    def one(carried, _):
        carried = letter_after(*carried)
        return carried, carried[1]
    return jax.lax.scan(one, (state, letter), None, length)


state = jnp.zeros(width)
for _ in steps(60 if large else 8, lambda: jax.block_until_ready(state)):
    text, letter = [], jnp.int32(0)
    if "scan" in sys.argv:
        (state, letter), text = text_of(state, letter)
        continue
    for _ in range(length):
        state, letter = letter_after(state, letter)
        text.append(int(letter))
