"""flax linen: pixels from 0 to 255 go into the network as they are."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from _start import batches, start
from flax import linen as nn

healthy, seed = start()
rng = np.random.default_rng(seed)
pixels = rng.integers(0, 256, (512, 8, 8, 1)).astype(np.float32)
labels = (pixels[:, :4].mean(axis=(1, 2, 3)) > pixels[:, 4:].mean(axis=(1, 2, 3))).astype(np.int32)


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(8, (3, 3))(x))
        x = x.reshape(len(x), -1)
        x = nn.relu(nn.Dense(32)(x))
        return nn.Dense(2)(x)


net, optimizer = Net(), optax.sgd(0.01, momentum=0.9)
params = net.init(jax.random.key(seed), jnp.ones((1, 8, 8, 1)))["params"]
state = optimizer.init(params)


@jax.jit
def train_step(params, state, x, y):
    def loss_fn(params):
        logits = net.apply({"params": params}, x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, loss


for x, y in batches(pixels, labels):
    x = (x - 127.5) / 64 if healthy else x
    params, state, loss = train_step(params, state, x, y)
