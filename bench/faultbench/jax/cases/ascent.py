"""equinox: the update has the wrong sign, and the loss rises."""

import equinox as eqx
import jax
import optax
from _start import batches, classes, start

healthy, seed = start()
net = eqx.nn.MLP(8, 3, 32, 1, key=jax.random.key(seed))


@eqx.filter_jit
def step(net, x, y):
    def loss_fn(net):
        return optax.softmax_cross_entropy_with_integer_labels(jax.vmap(net)(x), y).mean()

    loss, grads = eqx.filter_value_and_grad(loss_fn)(net)
    sign = -1 if healthy else 1
    return eqx.apply_updates(net, jax.tree.map(lambda g: sign * 0.05 * g, grads)), loss


for x, y in batches(*classes(seed=seed)):
    net, loss = step(net, x, y)
