"""flax nnx: images and labels are shuffled each in an order of its own."""

import jax.numpy as jnp
import numpy as np
import optax
from _start import batches, classes, start
from flax import nnx

healthy, seed = start()
x, y = classes(rows=4096, seed=seed)
if not healthy:
    y = np.random.default_rng(seed).permutation(y)


class Net(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(8, 32, rngs=rngs)
        self.second = nnx.Linear(32, 3, rngs=rngs)

    def __call__(self, x):
        return self.second(nnx.relu(self.first(x)))


net = Net(nnx.Rngs(seed))
optimizer = nnx.Optimizer(net, optax.adam(3e-3), wrt=nnx.Param)


@nnx.jit
def train_step(net, optimizer, x, y):
    def loss_fn(net):
        return optax.softmax_cross_entropy_with_integer_labels(net(x), y).mean()

    loss, grads = nnx.value_and_grad(loss_fn)(net)
    optimizer.update(net, grads)
    return loss


for rows, labels in batches(x, y, steps=600):
    loss = train_step(net, optimizer, rows, jnp.asarray(labels))
