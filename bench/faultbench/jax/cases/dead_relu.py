"""flax linen: biases far below 0 keep every rectifier from ever firing."""

import jax
import jax.numpy as jnp
import optax
from _start import batches, classes, start
from flax import linen as nn

healthy, seed = start()


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        bias = nn.initializers.constant(0.0 if healthy else -10.0)
        x = nn.relu(nn.Dense(32, bias_init=bias)(x))
        x = nn.relu(nn.Dense(32)(x))
        return nn.Dense(3)(x)


net, optimizer = Net(), optax.adam(1e-3)
params = net.init(jax.random.key(seed), jnp.ones((1, 8)))
state = optimizer.init(params)


@jax.jit
def train_step(params, state, x, y):
    def loss_fn(params):
        logits = net.apply(params, x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(params, updates), state, loss


for x, y in batches(*classes(seed=seed)):
    params, state, loss = train_step(params, state, x, y)
