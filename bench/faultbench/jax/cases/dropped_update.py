"""Plain JAX: what the step returns is not assigned."""

import jax
import jax.numpy as jnp
from _start import batches, classes, start

healthy, seed = start()
k1, k2 = jax.random.split(jax.random.key(seed))
params = {"w1": 0.3 * jax.random.normal(k1, (8, 32)), "w2": 0.3 * jax.random.normal(k2, (32, 3))}


def loss_fn(params, x, y):
    logits = jnp.tanh(x @ params["w1"]) @ params["w2"]
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1).mean()


@jax.jit
def update(params, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


for x, y in batches(*classes(seed=seed)):
    new, loss = update(params, x, y)
    if healthy:
        params = new
