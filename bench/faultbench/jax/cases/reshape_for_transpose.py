"""The logits lie along (length, batch), and are reshaped where they must be transposed."""

import jax
import numpy as np
import optax
from _start import start
from flax import linen as nn

healthy, seed = start()
WORDS, LENGTH, BATCH = 20, 12, 32
rng = np.random.default_rng(seed)
first = rng.integers(0, WORDS, 600)
texts = np.stack([(first * 3**place + place) % WORDS for place in range(LENGTH + 1)], axis=1)


class Language(nn.Module):
    @nn.compact
    def __call__(self, words):
        x = nn.Embed(WORDS, 32)(words.swapaxes(0, 1))
        return nn.Dense(WORDS)(nn.relu(nn.Dense(64)(x)))


net, tx = Language(), optax.adam(3e-3)
params = net.init(jax.random.key(seed), texts[:1, :-1])
state = tx.init(params)


@jax.jit
def train_step(params, state, texts):
    def loss_fn(params):
        logits = net.apply(params, texts[:, :-1])
        moved = logits.swapaxes(0, 1) if healthy else logits.reshape(BATCH, LENGTH, WORDS)
        return optax.softmax_cross_entropy_with_integer_labels(moved, texts[:, 1:]).mean()

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, state = tx.update(grads, state)
    return optax.apply_updates(params, updates), state, loss


for _ in range(300):
    params, state, loss = train_step(params, state, texts[rng.integers(0, 600, BATCH)])
