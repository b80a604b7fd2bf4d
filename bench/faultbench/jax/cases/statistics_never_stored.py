"""flax: the batch statistics that a step returns are thrown away."""

import jax
import numpy as np
import optax
from _start import classes, start
from flax import linen as nn
from flax.training import train_state

healthy, seed = start()
x, y = classes(rows=1200, seed=seed)
x = 3.0 * x + 4.0


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.Dense(64)(x)
        x = nn.BatchNorm(use_running_average=not train)(x)
        x = nn.relu(x)
        return nn.Dense(3)(x)


class State(train_state.TrainState):
    batch_stats: dict


net = Net()
variables = net.init(jax.random.key(seed), x[:1], train=False)
state = State.create(
    apply_fn=net.apply, params=variables["params"], tx=optax.adam(3e-3),
    batch_stats=variables["batch_stats"],
)


@jax.jit
def train_step(state, x, y):
    def loss_fn(params):
        logits, updates = state.apply_fn(
            {"params": params, "batch_stats": state.batch_stats}, x, train=True,
            mutable=["batch_stats"],
        )
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean(), updates

    (loss, updates), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    state = state.apply_gradients(grads=grads)
    if healthy:
        state = state.replace(batch_stats=updates["batch_stats"])
    return state, loss


@jax.jit
def eval_step(state, x, y):
    logits = state.apply_fn(
        {"params": state.params, "batch_stats": state.batch_stats}, x, train=False
    )
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()
    return loss, (logits.argmax(-1) == y).mean()


for epoch in range(12):
    order = np.random.default_rng(epoch).permutation(900)
    for rows in order.reshape(-1, 50):
        state, loss = train_step(state, x[rows], y[rows])
    print(epoch, float(loss), *map(float, eval_step(state, x[900:], y[900:])))
