"""A minimal framework: linear models trained by gradient descent."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


class Model:
    """Predicts a number from a row.

    Attributes:
        weight: shape (columns,).
    """

    def __init__(self, columns: int) -> None:
        self.weight = np.full(columns, 0.1)

    def loss(self, x: Array, y: Array) -> float:
        """Return the mean squared error."""
        return float(np.mean((x @ self.weight - y) ** 2))

    def gradient(self, x: Array, y: Array) -> Array:
        """Return the gradient of the loss with respect to the weight."""
        return 2 * (x @ self.weight - y) @ x / len(y)

    def update(self, x: Array, y: Array, rate: float) -> float:
        """Make a step; return the loss before it."""
        loss, gradient = self.loss(x, y), self.gradient(x, y)
        self.weight = self.weight - rate * gradient
        return loss

    def evaluate(self, x: Array, y: Array) -> float:
        """Return the loss on other rows."""
        return self.loss(x, y)


def train(steps: int = 12, rate: float = 0.1) -> Model:
    """Train a small model from the beginning, always in the same way."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 5))
    y = x @ np.arange(5.0) + rng.normal(size=40)
    model = Model(5)
    for step in range(steps):
        rows = slice(0, 30) if step % 2 else slice(5, 35)
        model.update(x[rows], y[rows], rate=rate)
        if step % 4 == 3:
            model.evaluate(x=x[35:], y=y[35:])
    return model
