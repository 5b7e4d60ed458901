"""JAX: stars attract each other. Each step has 200 leaps in time: Python calls a jitted leap for each, or a loop inside jit does.

leapfrog.py [inside]
"""
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np

from steps import steps

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
large = jax.default_backend() != "cpu"
stars, times = (256, 200) if large else (32, 5)
rng = np.random.default_rng(0)
place, speed = (jnp.asarray(rng.normal(size=(stars, 3)), jnp.float32) for _ in range(2))
mass = jnp.asarray(rng.uniform(0.5, 1.5, size=stars) / stars, jnp.float32)
pause = 1e-3


def pull(place):
    apart = place[None] - place[:, None]
    near = (apart ** 2).sum(-1) + 1e-2
    return (apart * (mass * near ** -1.5)[..., None]).sum(1)


def leap(place, speed):
    speed = speed + pause * pull(place)
    return place + pause * speed, speed


one = jax.jit(leap)
all_times = jax.jit(lambda place, speed: jax.lax.fori_loop(0, times, lambda _, state: leap(*state), (place, speed)))
for i in steps(80 if large else 8, lambda: jax.block_until_ready(place)):
    if "inside" in sys.argv:
        place, speed = all_times(place, speed)
    else:
        for _ in range(times):
            place, speed = one(place, speed)
print(float(jnp.abs(place).mean()))
