"""Plain JAX: all weights begin alike, so that the units of a layer stay alike."""

import jax
import jax.numpy as jnp
import optax
from _start import batches, classes, start

healthy, seed = start()
one, two = jax.random.split(jax.random.key(seed))
make = jax.nn.initializers.glorot_normal() if healthy else jax.nn.initializers.constant(0.1)
params = {"w1": make(one, (8, 32)), "b1": jnp.zeros(32), "w2": make(two, (32, 3))}
optimizer = optax.adam(3e-3)
state = optimizer.init(params)


def loss_fn(params, x, y):
    logits = jax.nn.relu(x @ params["w1"] + params["b1"]) @ params["w2"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


@jax.jit
def update(params, state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    changes, state = optimizer.update(grads, state)
    return optax.apply_updates(params, changes), state, loss


for x, y in batches(*classes(seed=seed)):
    params, state, loss = update(params, state, x, y)
