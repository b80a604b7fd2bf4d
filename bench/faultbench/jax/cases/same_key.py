"""flax linen: dropout with the same key in every step."""

import jax
import jax.numpy as jnp
import optax
from _start import batches, classes, start
from flax import linen as nn

healthy, seed = start()


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.relu(nn.Dense(32)(x))
        x = nn.Dropout(0.5, deterministic=not train)(x)
        return nn.Dense(3)(x)


net, optimizer = Net(), optax.adam(1e-3)
params = net.init(jax.random.key(seed), jnp.ones((1, 8)), False)
state = optimizer.init(params)


@jax.jit
def train_step(params, state, x, y, key):
    def loss_fn(params):
        logits = net.apply(params, x, True, rngs={"dropout": key})
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(params, updates), state, loss


key = jax.random.key(1)
for step, (x, y) in enumerate(batches(*classes(seed=seed))):
    own = jax.random.fold_in(key, step) if healthy else key
    params, state, loss = train_step(params, state, x, y, own)
