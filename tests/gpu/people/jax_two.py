"""JAX on all devices: the batch is sharded, the weights are copies on each."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from steps import steps

mesh = Mesh(np.array(jax.devices()), ("data",))
split, same = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
rng = np.random.default_rng(0)
weights = [jax.device_put(rng.normal(size=(2048, 2048)).astype(np.float32) * 0.02, same) for _ in range(12)]


def loss_of(weights, x, y):
    h = x
    for weight in weights:
        h = jax.nn.relu(h @ weight)
    return jnp.mean((h - y) ** 2)


@jax.jit
def update(weights, x, y):
    loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
    return [w - 1e-3 * g for w, g in zip(weights, gradients)], loss


for i in steps(60, lambda: jax.block_until_ready(weights)):
    x = jax.device_put(rng.normal(size=(2048, 2048)).astype(np.float32), split)
    weights, loss = update(weights, x, x)
    if i % 10 == 0:
        print(i, float(loss))
