"""JAX: particles that attract each other move by leapfrog steps, in float64 since that was switched on, or in float32.

jax_wide.py [narrow]
"""
import sys

import jax
import jax.numpy as jnp

from steps import steps

jax.config.update("jax_enable_x64", "narrow" not in sys.argv)
large = jax.default_backend() != "cpu"
count = 16384 if large else 64
place = jax.random.normal(jax.random.key(0), (count, 3))
speed = jnp.zeros_like(place)


def pull(place):
    apart = place[None, :, :] - place[:, None, :]
    far = (apart * apart).sum(-1) + 1e-2
    return (apart * (far ** -1.5)[..., None]).sum(1) / count


@jax.jit
def move(place, speed):
    for _ in range(4):
        speed = speed + 1e-3 * pull(place)
        place = place + 1e-3 * speed
    return place, speed


for i in steps(40 if large else 8, lambda: jax.block_until_ready(place)):
    place, speed = move(place, speed)
