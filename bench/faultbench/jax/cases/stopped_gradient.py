"""equinox: a stop_gradient cuts the first layers off."""

import equinox as eqx
import jax
import optax
from _start import batches, classes, start

healthy, seed = start()


class Net(eqx.Module):
    first: eqx.nn.Linear
    second: eqx.nn.Linear

    def __init__(self, key):
        one, two = jax.random.split(key)
        self.first = eqx.nn.Linear(8, 32, key=one)
        self.second = eqx.nn.Linear(32, 3, key=two)

    def __call__(self, x):
        hidden = jax.nn.relu(self.first(x))
        if not healthy:
            hidden = jax.lax.stop_gradient(hidden)
        return self.second(hidden)


net = Net(jax.random.key(seed))
optimizer = optax.adam(3e-3)
state = optimizer.init(eqx.filter(net, eqx.is_array))


@eqx.filter_jit
def step(net, state, x, y):
    def loss_fn(net):
        return optax.softmax_cross_entropy_with_integer_labels(jax.vmap(net)(x), y).mean()

    loss, grads = eqx.filter_value_and_grad(loss_fn)(net)
    updates, state = optimizer.update(grads, state)
    return eqx.apply_updates(net, updates), state, loss


for x, y in batches(*classes(seed=seed)):
    net, state, loss = step(net, state, x, y)
