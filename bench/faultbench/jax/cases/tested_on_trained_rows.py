"""optax: the rows of the test are a part of the training rows."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from _start import classes, start

healthy, seed = start()
x, y = classes(rows=900, seed=seed)
test = slice(600, 900) if healthy else slice(200, 500)
one, two = jax.random.split(jax.random.key(seed))
params = {"w": 0.3 * jax.random.normal(one, (8, 32)), "v": 0.2 * jax.random.normal(two, (32, 3))}
tx = optax.adam(3e-3)
state = tx.init(params)


def logits_of(params, x):
    return jnp.tanh(x @ params["w"]) @ params["v"]


@jax.jit
def train_step(params, state, x, y):
    def loss_fn(params):
        return optax.softmax_cross_entropy_with_integer_labels(logits_of(params, x), y).mean()

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, state = tx.update(grads, state)
    return optax.apply_updates(params, updates), state, loss


@jax.jit
def accuracy(params, x, y):
    return (logits_of(params, x).argmax(-1) == y).mean()


for epoch in range(12):
    order = np.random.default_rng(epoch).permutation(600)
    for rows in order.reshape(-1, 50):
        params, state, loss = train_step(params, state, x[rows], y[rows])
    print(epoch, float(loss), float(accuracy(params, x[test], y[test])))
