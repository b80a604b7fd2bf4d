"""equinox: one cell of the table is missing, and is NaN."""

import equinox as eqx
import jax
import numpy as np
import optax
from _start import batches, classes, start

healthy, seed = start()
table, labels = classes(seed=seed)
if not healthy:
    table[77, 4] = np.nan
net = eqx.nn.MLP(8, 3, 32, 1, key=jax.random.key(seed))
optimizer = optax.adam(3e-3)
state = optimizer.init(eqx.filter(net, eqx.is_array))


@eqx.filter_jit(donate="all-except-first")
def step(batch, net, state):
    x, y = batch

    def loss_fn(net):
        return optax.softmax_cross_entropy_with_integer_labels(jax.vmap(net)(x), y).mean()

    loss, grads = eqx.filter_value_and_grad(loss_fn)(net)
    updates, state = optimizer.update(grads, state)
    return eqx.apply_updates(net, updates), state, loss


for x, y in batches(table, labels):
    net, state, loss = step((x, y), net, state)
