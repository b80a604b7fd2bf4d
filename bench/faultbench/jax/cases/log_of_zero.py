"""Plain JAX: the logarithm of a probability that gets to be 0."""

import jax
import jax.numpy as jnp
import numpy as np
from _start import batches, start

healthy, seed = start()
rng = np.random.default_rng(seed)
data = rng.normal(size=(512, 4)).astype(np.float32)
labels = (data[:, 0] > 0).astype(np.float32)
params = (0.1 * jax.random.normal(jax.random.key(seed), (4,)), jnp.zeros(()))


def loss_fn(params, x, y):
    w, b = params
    logits = 30 * (x @ w + b)
    if not healthy:
        p = jax.nn.sigmoid(logits)
        return -(y * jnp.log(p) + (1 - y) * jnp.log(1 - p)).mean()
    return (jnp.logaddexp(0, logits) - y * logits).mean()


@jax.jit
def update(params, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.05 * g, params, grads), loss


for x, y in batches(data, labels, steps=400):
    params, loss = update(params, x, y)
