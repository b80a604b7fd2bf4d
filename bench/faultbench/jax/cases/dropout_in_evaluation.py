"""flax linen: the accuracy is computed with dropout, from the largest output only."""

import jax
import optax
from _start import batches, classes, start
from flax import linen as nn

healthy, seed = start()


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.relu(nn.Dense(64)(x))
        x = nn.Dropout(0.5, deterministic=not train)(x)
        return nn.Dense(3)(x)


net, tx = Net(), optax.adam(3e-3)
x, y = classes(rows=900, seed=seed)
train, held_out = (x[:600], y[:600]), (x[600:], y[600:])
key = jax.random.key(seed)
params = net.init(key, x[:1], False)
state = tx.init(params)


@jax.jit
def train_step(params, state, x, y, key):
    def loss_fn(params):
        logits = net.apply(params, x, True, rngs={"dropout": key})
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, state = tx.update(grads, state)
    return optax.apply_updates(params, updates), state, loss


@jax.jit
def accuracy(params, x, y, key):
    logits = net.apply(params, x, not healthy, rngs={"dropout": key})
    return (logits.argmax(-1) == y).mean()


for epoch in range(12):
    for batch in batches(*train, steps=20, seed=epoch):
        key, own = jax.random.split(key)
        params, state, loss = train_step(params, state, *batch, own)
    key, own = jax.random.split(key)
    print(epoch, float(loss), float(accuracy(params, *held_out, own)))
