"""Plain JAX: a root of 0 that `where` leaves out of the loss breaks its gradient all the same."""

import jax
import jax.numpy as jnp
import numpy as np
from _start import batches, start

healthy, seed = start()
rng = np.random.default_rng(seed)
points = rng.normal(size=(512, 3)).astype(np.float32)
lengths = np.sqrt((points**2).sum(axis=1)).astype(np.float32)
points[100], lengths[100] = 0.0, 0.0
params = {"scale": jnp.full(3, 0.3), "shift": jnp.full((), 0.5)}


def loss_fn(params, x, y):
    square = ((x * params["scale"]) ** 2).sum(axis=1)
    is_zero = square == 0
    if healthy:
        square = jnp.where(is_zero, 1.0, square)
    length = jnp.where(is_zero, 0.0, jnp.sqrt(square)) + params["shift"]
    return ((length - y) ** 2).mean()


@jax.jit
def update(params, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.05 * g, params, grads), loss


for x, y in batches(points, lengths):
    params, loss = update(params, x, y)
