"""Eight micro-batches in a scan, whose gradients are added and not averaged."""

import jax
import jax.numpy as jnp
import optax
from _start import batches, classes, start

healthy, seed = start()
keys = jax.random.split(jax.random.key(seed))
params = {"a": jax.random.normal(keys[0], (8, 32)) / 3, "b": jax.random.normal(keys[1], (32, 3)) / 6}
optimizer = optax.sgd(0.1, momentum=0.9)
state = optimizer.init(params)
PARTS = 8


def loss_fn(params, x, y):
    logits = jax.nn.relu(x @ params["a"]) @ params["b"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


@jax.jit
def train_step(params, state, x, y):
    def body(carry, batch):
        total, sums = carry
        loss, grads = jax.value_and_grad(loss_fn)(params, *batch)
        return (total + loss, jax.tree.map(jnp.add, sums, grads)), None

    zeros = jax.tree.map(jnp.zeros_like, params)
    parts = x.reshape(PARTS, -1, 8), y.reshape(PARTS, -1)
    (total, grads), _ = jax.lax.scan(body, (0.0, zeros), parts)
    if healthy:
        grads = jax.tree.map(lambda g: g / PARTS, grads)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, total / len(parts[0])


for x, y in batches(*classes(seed=seed), size=96):
    params, state, loss = train_step(params, state, x, y)
