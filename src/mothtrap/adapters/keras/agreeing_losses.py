"""Losses of two opponents that ask for the same answer, as in a GAN.

Both are computed from the same outputs, with one label for all of them. The discriminator's loss
calls generated examples 0, and the generator's loss calls them 1.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

from mothtrap.adapters.keras import losses
from mothtrap.adapters.tensorflow.probes.loss_records import LossRecord
from mothtrap.adapters.tensorflow.probes.probes import Look
from mothtrap.core.adapters import Job
from mothtrap.core.facts.loss_terms import AgreeingLosses

TOLD_AT: Final = (8, 32)
"""Inspected steps after which the result is reported."""


class AgreementLooks:
    """Compares the labels of losses of the same outputs.

    Args:
        job: receives the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._looks: Counter[tuple[str | None, bool]] = Counter()

    def report(self, look: Look, step: int) -> None:
        """Compare the losses of a step in which two optimizers were applied."""
        if len({id(one.optimizer) for one in look.applied}) < 2:
            return
        pairs: dict[int, list[tuple[LossRecord, int]]] = defaultdict(list)
        for call in look.losses:
            label = _label(call)
            if label is not None:
                pairs[call.of].append((call, label))
        for same in pairs.values():
            if len(same) == 2:
                self._compare(same, len(look.targets), step)

    def _compare(self, same: Sequence[tuple[LossRecord, int]], targets: int, step: int) -> None:
        (first, label), (second, other) = same
        agrees = label == other and targets > 1
        unused = label != other and targets == 1
        if not agrees and not unused:
            return
        key = second.location, agrees
        self._looks[key] += 1
        if self._looks[key] in TOLD_AT:
            self._job.fact(
                AgreeingLosses(
                    step=step,
                    label=label,
                    looks=self._looks[key],
                    unused=unused,
                    location=first.location,
                    other=second.location,
                )
            )


def _label(call: LossRecord) -> int | None:
    """Return the class that a binary loss gives to all outputs; None if there are several."""
    if call.target is None or not losses.operation_of(call).startswith("binary"):
        return None
    labels = call.target.read()
    if not labels.size or not ((labels > 0.5).all() or (labels < 0.5).all()):
        return None
    return int(labels.flat[0] > 0.5)
