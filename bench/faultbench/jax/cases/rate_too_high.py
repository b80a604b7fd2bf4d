"""flax nnx: a learning rate a thousand times too high."""

import jax.numpy as jnp
import optax
from _start import batches, classes, start
from flax import nnx

healthy, seed = start()


class Net(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(8, 32, rngs=rngs)
        self.second = nnx.Linear(32, 3, rngs=rngs)

    def __call__(self, x):
        return self.second(nnx.relu(self.first(x)))


net = Net(nnx.Rngs(seed))
optimizer = nnx.Optimizer(net, optax.sgd(0.1 if healthy else 100.0), wrt=nnx.Param)


@nnx.jit
def train_step(net, optimizer, x, y):
    def loss_fn(net):
        return optax.softmax_cross_entropy_with_integer_labels(net(x), y).mean()

    loss, grads = nnx.value_and_grad(loss_fn)(net)
    optimizer.update(net, grads)
    return loss


for x, y in batches(*classes(seed=seed)):
    loss = train_step(net, optimizer, x, jnp.asarray(y))
