"""One batch and one set of weights, with the same numbers in every framework."""

from __future__ import annotations

import numpy as np

RNG = np.random.default_rng(7)
ROWS, FEATURES, HIDDEN, CLASSES = 64, 6, 8, 3
LABELS = np.arange(ROWS) % CLASSES
TABLE = RNG.normal(size=(ROWS, FEATURES)).astype(np.float32)
TABLE[:, 3] = LABELS + 0.01 * RNG.normal(size=ROWS)
"""Column 3 is a copy of the label with 1 % of noise: a leak."""
NUMBERS = RNG.normal(size=(ROWS, 1)).astype(np.float32)
NUMBER_TABLE = RNG.normal(size=(ROWS, FEATURES)).astype(np.float32)
NUMBER_TABLE[:, 5] = NUMBERS[:, 0] + 0.001 * RNG.normal(size=ROWS)
"""Column 5 is a copy of the number with 0.1 % of noise: a leak."""
W1 = (0.3 * RNG.normal(size=(FEATURES, HIDDEN))).astype(np.float32)
B1 = np.zeros(HIDDEN, np.float32)
W2 = (0.3 * RNG.normal(size=(HIDDEN, CLASSES))).astype(np.float32)
B2 = np.zeros(CLASSES, np.float32)
V2 = (0.3 * RNG.normal(size=(HIDDEN, 1))).astype(np.float32)
C2 = np.zeros(1, np.float32)
RATE = 0.1
STEPS = 3


def data(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and targets of a kind of training."""
    return (TABLE, LABELS.astype(np.int32)) if kind == "classes" else (NUMBER_TABLE, NUMBERS)


def last_layer(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return weight (inputs, outputs) and bias of the last layer of a kind of training."""
    return (W2, B2) if kind == "classes" else (V2, C2)
