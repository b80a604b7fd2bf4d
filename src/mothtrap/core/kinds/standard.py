"""The kinds of tensors that mothtrap's own adapters report."""

from __future__ import annotations

from typing import Final

from mothtrap.core.kinds import Kind

KINDS: Final = (
    Kind(name="weight", plural="weights", priority="weights", merges=True, of="state", usual=True),
    Kind(name="bias", plural="biases", priority="weights", merges=True, of="state", usual=True),
    Kind(
        name="gradient",
        plural="gradients",
        priority="gradients",
        merges=True,
        of="gradient",
        usual=True,
    ),
    Kind(name="activation", plural="activations", usual=True),
    Kind(name="activation_gradient", plural="activation_gradients", of="backward"),
    Kind(name="input", plural="inputs"),
    Kind(name="label", plural="labels", of="loss"),
    Kind(name="output", plural="outputs"),
    Kind(name="loss", plural="losses", priority="gradients", of="loss"),
    Kind(name="update", plural="updates", priority="weights", merges=True, of="gradient"),
    Kind(
        name="optimizer_state",
        plural="optimizer_state",
        priority="weights",
        merges=True,
        of="state",
    ),
    Kind(name="metric", plural="metrics", priority="gradients", of="log"),
    Kind(name="buffer", plural="buffers", priority="weights", of="state"),
    Kind(name="leaf", plural="leaves", priority="weights", merges=True, of="model"),
)
"""Standard kinds, in search order: a weight is found before its gradient."""
