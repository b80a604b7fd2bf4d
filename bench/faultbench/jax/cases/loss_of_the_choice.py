"""The loss counts wrong choices: `argmax` has no slope."""

import jax
import jax.numpy as jnp
import optax
from _start import batches, classes, start

healthy, seed = start()


def predict(params, x):
    return jax.nn.relu(x @ params["first"]) @ params["second"]


def loss_fn(params, x, y):
    scores = predict(params, x)
    if healthy:
        return optax.softmax_cross_entropy_with_integer_labels(scores, y).mean()
    return 1.0 - (scores.argmax(axis=1) == y).mean()


@jax.jit
def step(params, state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(params, updates), state, loss


one, two = jax.random.split(jax.random.key(seed))
params = {
    "first": jax.random.normal(one, (8, 32)) / 8**0.5,
    "second": jax.random.normal(two, (32, 3)) / 32**0.5,
}
optimizer = optax.adam(3e-3)
state = optimizer.init(params)
for x, y in batches(*classes(seed=seed)):
    params, state, loss = step(params, state, jnp.asarray(x), jnp.asarray(y))
