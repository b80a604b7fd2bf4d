"""flax linen: the network ends in a softmax, and the loss applies its own."""

import jax
import jax.numpy as jnp
import optax
from _start import batches, classes, start
from flax import linen as nn
from flax.training import train_state

healthy, seed = start()


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(32)(x))
        x = nn.Dense(3)(x)
        return x if healthy else nn.softmax(x)


net = Net()
state = train_state.TrainState.create(
    apply_fn=net.apply, params=net.init(jax.random.key(seed), jnp.ones((1, 8))), tx=optax.adam(3e-3)
)


@jax.jit
def train_step(state, x, y):
    def loss_fn(params):
        logits = state.apply_fn(params, x)
        return optax.softmax_cross_entropy(logits, jax.nn.one_hot(y, 3)).mean()

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


for x, y in batches(*classes(seed=seed)):
    state, loss = train_step(state, x, y)
