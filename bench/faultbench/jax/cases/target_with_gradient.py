"""Q-learning: `stop_gradient` is missing around the target."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from _start import start
from flax import linen as nn

healthy, seed = start()


class Values(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(4)(nn.relu(nn.Dense(64)(x)))


net, tx = Values(), optax.adam(1e-3)
params = net.init(jax.random.key(seed), jnp.ones((1, 6)))
state = tx.init(params)


@jax.jit
def train_step(params, state, now, action, reward, later):
    def loss_fn(params):
        target = reward + 0.9 * net.apply(params, later).max(axis=-1)
        if healthy:
            target = jax.lax.stop_gradient(target)
        value = jnp.take_along_axis(net.apply(params, now), action[:, None], axis=1)[:, 0]
        return jnp.mean((value - target) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, state = tx.update(grads, state)
    return optax.apply_updates(params, updates), state, loss


rng = np.random.default_rng(seed)
moves = 0.4 * rng.normal(size=(6, 6))
for _ in range(300):
    now = rng.normal(size=(64, 6)).astype(np.float32)
    action = rng.integers(0, 4, 64)
    later = (now @ moves + 0.1 * rng.normal(size=(64, 6))).astype(np.float32)
    reward = (now[:, 0] * (action - 1.5)).astype(np.float32)
    params, state, loss = train_step(params, state, now, action, reward, later)
