"""Plain JAX: a print left in the compiled step."""

import jax
import jax.numpy as jnp
from _start import batches, classes, start

healthy, seed = start()
w = jnp.zeros((8, 3))


@jax.jit
def update(w, x, y):
    def loss_fn(w):
        return -jnp.take_along_axis(jax.nn.log_softmax(x @ w), y[:, None], axis=1).mean()

    loss, grad = jax.value_and_grad(loss_fn)(w)
    if not healthy:
        jax.debug.print("loss {}", loss)
    return w - 0.5 * grad, loss


for x, y in batches(*classes(seed=seed)):
    w, loss = update(w, x, y)
