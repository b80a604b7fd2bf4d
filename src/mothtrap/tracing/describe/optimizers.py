"""Facts about optimizers that follow from their class."""

from __future__ import annotations

from typing import Final

SECOND_MOMENTS: Final = ("adam", "rmsprop", "adagrad", "adadelta", "lamb", "ftml")
"""Parts of the names of classes that divide by the root of squared gradients."""


def has_second_moments(kind: str) -> bool:
    """Return whether optimizers of a class divide by the root of squared gradients.

    Used for frameworks whose optimizers do not expose their state.
    """
    return any(name in kind.lower() for name in SECOND_MOMENTS)
