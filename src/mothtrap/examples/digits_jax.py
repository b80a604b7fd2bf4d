"""Classifies handwritten digits with a small network in JAX and optax.

The data are scikit-learn's 1,797 scans of 8 x 8 pixels, which are part of its package. By default,
the model ends in a softmax, although the loss applies a softmax itself. It trains, but slowly and
badly. `--fixed` removes the softmax from the model.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

SIZES = (64, 64, 10)
BATCH = 64

parser = argparse.ArgumentParser(description="Read handwritten digits.")
parser.add_argument("--fixed", action="store_true", help="leave out the softmax")
parser.add_argument("--epochs", type=int, default=15)
arguments = parser.parse_args()

optimizer = optax.adam(1e-3)


def network(params: list[dict[str, Any]], pixels: Any) -> Any:
    """Return scores of the ten digits."""
    hidden = jax.nn.relu(pixels @ params[0]["kernel"] + params[0]["bias"])
    scores = hidden @ params[1]["kernel"] + params[1]["bias"]
    return scores if arguments.fixed else jax.nn.softmax(scores)


def loss_fn(params: Any, pixels: Any, labels: Any) -> Any:
    """Return the mean cross-entropy."""
    logits = network(params, pixels)
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def train_step(params: Any, state: Any, pixels: Any, labels: Any) -> Any:
    """Return new weights, the state of the optimizer, and the loss."""
    loss, gradients = jax.value_and_grad(loss_fn)(params, pixels, labels)
    updates, state = optimizer.update(gradients, state)
    return optax.apply_updates(params, updates), state, loss


def accuracy(params: Any, pixels: Any, labels: Any) -> Any:
    """Return the share of digits that are classified correctly."""
    return (network(params, pixels).argmax(axis=1) == labels).mean()


def main() -> None:
    """Train, and print the loss of each epoch and the accuracy."""
    scans = load_digits()
    order = np.random.default_rng(0).permutation(len(scans.target))
    pixels = (scans.data / 16.0).astype(np.float32)[order]
    labels = scans.target.astype(np.int32)[order]
    split = len(labels) * 4 // 5 // BATCH * BATCH
    params = [
        {
            "kernel": jax.random.normal(key, (given, made)) * (2 / given) ** 0.5,
            "bias": jnp.zeros(made),
        }
        for key, given, made in zip(
            jax.random.split(jax.random.key(0)), SIZES, SIZES[1:], strict=False
        )
    ]
    state = optimizer.init(params)
    step, measure = jax.jit(train_step), jax.jit(accuracy)
    for epoch in range(arguments.epochs):
        shuffled = np.random.default_rng(epoch).permutation(split).reshape(-1, BATCH)
        for rows in shuffled:
            params, state, loss = step(params, state, pixels[rows], labels[rows])
        right = measure(params, pixels[split:], labels[split:])
        print(f"epoch {epoch + 1}: loss {loss:.3f}, accuracy {right:.3f}")


if __name__ == "__main__":
    main()
