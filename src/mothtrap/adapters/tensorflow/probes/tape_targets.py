"""Values that tapes differentiate, in the record of a traced program or eager step."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from mothtrap.adapters.tensorflow.probes.slots import Slot
from mothtrap.core.facts.losses import LossCall
from mothtrap.tracing.describe.differences import difference


@dataclass(slots=True, eq=False)
class Broadcast:
    """A difference between every prediction and every target: its shape, and its line if known."""

    shape: Slot
    location: str | None = None

    def fact(self, step: int, series: str | None, place: str | None) -> LossCall:
        """Return the fact; `place` is the location of the loss."""
        rows, columns = self.shape.read().tolist()
        shapes = (rows, 1), (columns,), (rows, columns)
        return difference(*shapes, step=step, series=series, location=self.location or place)


@dataclass(slots=True)
class Terms:
    """Terms of a loss, read while its program is traced, or in one of the first eager steps.

    `mean`, `log_variance`: latent code of a variational autoencoder, if the loss contains its KL
    divergence. `noise`: wrong factor of the noise of the code; None if right or unknown. `signs`
    are the signs of the weighted log probabilities, as in `LossTerms.policy_signs`. `values` are
    the signs of the outputs of networks that the loss does not train. `labels` are the signs of the
    log probabilities of labels, if the loss has no other terms.
    """

    mean: Slot | None = None
    log_variance: Slot | None = None
    noise: str | None = None
    signs: frozenset[bool | None] = frozenset()
    values: frozenset[bool | None] = frozenset()
    labels: frozenset[bool | None] = frozenset()
    location: str | None = None

    @property
    def is_written(self) -> bool:
        """Return whether a program writes the values of the code."""
        return all(one is None or one.written for one in (self.mean, self.log_variance))


@dataclass(slots=True, eq=False)
class Target:
    """A loss: the value that a tape differentiates with respect to variables.

    `scaled`: a loss scale was applied, and `value` is the unscaled loss. `tensor`: tensor of the
    program, while it is traced. `sources`: identities of the variables; `first` is the first of
    them. `original`: the tensor passed to the tape. `terms`: its terms, if their kind is known.
    """

    value: Slot
    location: str | None
    scaled: bool
    broadcast: Broadcast | None = None
    tensor: Any = None
    sources: frozenset[int] = frozenset()
    first: weakref.ref[Any] | None = None
    original: Any = None
    terms: Terms | None = None
