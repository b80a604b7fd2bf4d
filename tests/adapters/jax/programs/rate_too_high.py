"""flax nnx: a learning rate a thousand times too high."""

import sys

import jax.numpy as jnp
import optax
from data import batches, classes
from flax import nnx

SICK = "sick" in sys.argv


class Net(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(8, 32, rngs=rngs)
        self.second = nnx.Linear(32, 3, rngs=rngs)

    def __call__(self, x):
        return self.second(nnx.relu(self.first(x)))


net = Net(nnx.Rngs(0))
optimizer = nnx.Optimizer(net, optax.sgd(100.0 if SICK else 0.1), wrt=nnx.Param)


@nnx.jit
def train_step(net, optimizer, x, y):
    def loss_fn(net):
        return optax.softmax_cross_entropy_with_integer_labels(net(x), y).mean()

    loss, grads = nnx.value_and_grad(loss_fn)(net)
    optimizer.update(net, grads)
    return loss


for x, y in batches(*classes()):
    loss = train_step(net, optimizer, x, jnp.asarray(y))
