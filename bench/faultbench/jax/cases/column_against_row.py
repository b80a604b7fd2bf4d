"""flax linen: predictions of shape (N, 1) minus targets of shape (N,) are a table (N, N)."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from _start import batches, start
from flax import linen as nn

healthy, seed = start()
rng = np.random.default_rng(seed)
x = rng.normal(size=(512, 6)).astype(np.float32)
y = (x[:, 0] - 2 * x[:, 1] + np.sin(x[:, 2])).astype(np.float32)


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(32)(x))
        return nn.Dense(1)(x)


net, optimizer = Net(), optax.adam(3e-3)
params = net.init(jax.random.key(seed), jnp.ones((1, 6)))
state = optimizer.init(params)


@jax.jit
def train_step(params, state, x, y):
    def loss_fn(params):
        predicted = net.apply(params, x)
        if healthy:
            predicted = predicted[:, 0]
        return ((predicted - y) ** 2).mean()

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(params, updates), state, loss


for rows, targets in batches(x, y):
    params, state, loss = train_step(params, state, rows, targets)
