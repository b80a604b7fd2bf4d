"""flax: a VAE whose divergence has a weight of 100."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from _start import start
from flax import linen as nn

healthy, seed = start()
rng = np.random.default_rng(seed)
codes = rng.normal(size=(1500, 3))
x = (1 / (1 + np.exp(-2 * codes @ rng.normal(size=(3, 32))))).round().astype(np.float32)


class VAE(nn.Module):
    @nn.compact
    def __call__(self, x, key):
        h = nn.relu(nn.Dense(64)(x))
        mean, logvar = nn.Dense(4, name="mean")(h), nn.Dense(4, name="logvar")(h)
        z = mean + jnp.exp(0.5 * logvar) * jax.random.normal(key, mean.shape)
        return nn.Dense(32, name="out")(nn.relu(nn.Dense(64)(z))), mean, logvar


net, tx = VAE(), optax.adam(2e-3)
params = net.init(jax.random.key(seed), x[:1], jax.random.key(1))
state = tx.init(params)


@jax.jit
def train_step(params, state, batch, key):
    def loss_fn(params):
        logits, mean, logvar = net.apply(params, batch, key)
        bce = optax.sigmoid_binary_cross_entropy(logits, batch).sum(-1).mean()
        kld = (-0.5 * (1 + logvar - mean**2 - jnp.exp(logvar)).sum(-1)).mean()
        return bce + kld if healthy else bce + 100.0 * kld

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, state = tx.update(grads, state)
    return optax.apply_updates(params, updates), state, loss


key = jax.random.key(2)
for epoch in range(20):
    order = np.random.default_rng(epoch).permutation(1500)
    for rows in order.reshape(-1, 50):
        key, sub = jax.random.split(key)
        params, state, loss = train_step(params, state, x[rows], sub)
    if epoch % 4 == 0:
        print(epoch, float(loss))
