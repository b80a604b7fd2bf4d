"""A language model: the causal mask of zeros and ones is added to the scores."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from _start import start
from flax import linen as nn

healthy, seed = start()
WORDS, LENGTH = 20, 12
rng = np.random.default_rng(seed)
texts = np.zeros((600, LENGTH + 1), np.int32)
texts[:, 0] = rng.integers(0, WORDS, 600)
for place in range(LENGTH):
    other = rng.random(600) < 0.2
    follows = (3 * texts[:, place] + 1) % WORDS
    texts[:, place + 1] = np.where(other, rng.integers(0, WORDS, 600), follows)


class Language(nn.Module):
    @nn.compact
    def __call__(self, words):
        x = nn.Embed(WORDS, 32)(words)
        x = x + self.param("places", nn.initializers.normal(0.02), (LENGTH, 32))
        for _ in range(2):
            y = nn.LayerNorm()(x)
            query, key, value = nn.Dense(32)(y), nn.Dense(32)(y), nn.Dense(32)(y)
            scores = query @ key.swapaxes(-1, -2) / jnp.sqrt(32.0)
            mask = jnp.tril(jnp.ones((LENGTH, LENGTH)))
            scores = jnp.where(mask == 1.0, scores, -1e9) if healthy else scores + mask
            x = x + nn.Dense(32)(jax.nn.softmax(scores) @ value)
            x = x + nn.Dense(32)(nn.gelu(nn.Dense(64)(nn.LayerNorm()(x))))
        return nn.Dense(WORDS)(x)


net, tx = Language(), optax.adam(3e-3)
params = net.init(jax.random.key(seed), texts[:1, :-1])
state = tx.init(params)


@jax.jit
def train_step(params, state, texts):
    def loss_fn(params):
        logits = net.apply(params, texts[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, texts[:, 1:]).mean()

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, state = tx.update(grads, state)
    return optax.apply_updates(params, updates), state, loss


for _ in range(200):
    params, state, loss = train_step(params, state, texts[rng.integers(0, 600, 32)])
