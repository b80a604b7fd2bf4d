"""The evaluation gets the trained state, and uses the initial weights."""

import flax.linen as nn
import jax
import numpy as np
import optax
from _start import batches, classes, start
from flax.training.train_state import TrainState

healthy, seed = start()
x, y = classes(seed=seed)
model = nn.Sequential([nn.Dense(32), nn.relu, nn.Dense(3)])
params = model.init(jax.random.key(seed), x[:1])
state = TrainState.create(apply_fn=model.apply, params=params, tx=optax.adam(3e-3))


def loss_of(params, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(model.apply(params, x), y).mean()


@jax.jit
def train_step(state, x, y):
    loss, grads = jax.value_and_grad(loss_of)(state.params, x, y)
    return state.apply_gradients(grads=grads), loss


@jax.jit
def eval_step(state, x, y):
    return {"loss": loss_of(state.params if healthy else params, x, y)}


for number, (rows, labels) in enumerate(batches(x[:400], y[:400])):
    state, loss = train_step(state, rows, labels)
    if number % 100 == 99:
        print(float(np.mean(eval_step(state, x[400:], y[400:])["loss"])))
