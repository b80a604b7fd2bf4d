"""Facts about patterns in a loss, from the results of the shadow of a step."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from mothtrap.adapters.jax.layers import LayerFacts
from mothtrap.adapters.jax.shadow import LAYERS, Looks, Shadow, Softmax
from mothtrap.core.adapters import Job
from mothtrap.core.facts.evaluations import BootstrappedTargets
from mothtrap.core.facts.layers import MaskOfOnes
from mothtrap.core.facts.losses import MixedAxes
from mothtrap.core.facts.modules import ZeroSlope
from mothtrap.core.facts.targets import TrainedTarget
from mothtrap.tracing.describe.term_facts import OF_TERMS, REPORTED_AT, facts_of

OF_PATTERNS: Final = (
    *(TrainedTarget, BootstrappedTargets, MixedAxes, MaskOfOnes, ZeroSlope),
    *OF_TERMS,
)
FLAT_AT: Final = (4, 16, 64)
"""Inspections after which a loss without a slope is reported."""
SHOWN: Final = 8


class PatternFacts:
    """Reports the patterns that a shadow found.

    Args:
        job: receives the facts.
        layers: reports outputs.
    """

    def __init__(self, job: Job, layers: LayerFacts) -> None:
        self._job, self._layers = job, layers
        self._looks: dict[Shadow, int] = {}
        self._masks: set[str | None] = set()

    def describe(self, shadow: Shadow, looks: Looks, location: str | None = None) -> None:
        """Report the patterns of the loss of a step; `location` is its line."""
        self._job.stood_ready(OF_PATTERNS)
        count = self._looks[shadow] = self._looks.get(shadow, 0) + 1
        step, found = self._job.now.step, shadow.found
        if count in REPORTED_AT:
            for line in found.trained_targets[:1]:
                self._job.fact(TrainedTarget(step=step, looks=count, trained=count, location=line))
            for line in found.bootstrapped[:1] if count == REPORTED_AT[0] else ():
                self._job.fact(
                    BootstrappedTargets(step=step, module="the model", steps=count, location=line)
                )
            for given, became, line in found.mixed[:1]:
                self._job.fact(
                    MixedAxes(
                        step=step,
                        looks=count,
                        mixed=count,
                        given=given,
                        became=became,
                        location=line,
                    )
                )
        if found.flat is not None and count in FLAT_AT:
            self._flat(shadow, looks, count, *found.flat)
        if found.terms is not None and count in REPORTED_AT:
            for fact in facts_of(found.terms, step=step, looks=count, location=location):
                self._job.fact(fact)
        for line, mask in zip(found.masks, looks.masks, strict=True):
            self._mask(line, np.asarray(mask))
        if found.codes:
            self._codes(shadow, looks)

    def _flat(
        self, shadow: Shadow, looks: Looks, count: int, operation: str, line: str | None
    ) -> None:
        """Report a loss that depends on the weights only through an operation without a slope."""
        elements = sum(int(np.size(gradient)) for gradient in looks.gradients)
        modules = dict.fromkeys(name.rpartition(".")[0] or name for name in shadow.names)
        self._job.fact(
            ZeroSlope(
                step=self._job.now.step,
                looks=count,
                found=count,
                operation=operation,
                parameters=elements,
                of=elements,
                layers=tuple(modules)[:SHOWN],
                location=line,
            )
        )

    def _mask(self, line: str | None, mask: np.ndarray[Any, Any]) -> None:
        """Report a numeric mask that hides nothing: zeros and ones that are only added."""
        if line in self._masks or mask.ndim < 2 or mask.dtype.kind not in "fV":
            return
        if set(np.unique(mask.astype(np.float32)).tolist()) == {0.0, 1.0}:
            self._masks.add(line)
            self._job.fact(
                MaskOfOnes(step=self._job.now.step, shape=tuple(mask.shape), location=line)
            )

    def _codes(self, shadow: Shadow, looks: Looks) -> None:
        """Report a code that is regularized toward a prior, and the outputs computed from it."""
        mean, log_var = (np.asarray(one) for one in looks.codes[:2])
        layers = zip(shadow.activations, looks.activations, strict=True)
        logits = zip(shadow.softmaxes, looks.logits, strict=True)
        outputs = [*looks.outputs, *(_reconstructed(*one) for one in logits)]
        outputs += [array for info, array in layers if info.operation in LAYERS.values()][-1:]
        others = [one for one in outputs if one.shape != mean.shape]
        if not others:
            return
        named = (("mean", mean), ("log variance", log_var), ("prediction", np.asarray(others[0])))
        for name, values in named:
            rows = values.reshape(len(values), -1)
            self._layers.spread(rows, "the model", shadow.found.codes[0], looks, name)


def _reconstructed(loss: Softmax, logits: Any) -> Any:
    """Return logits as values of the data: the probabilities of a binary loss."""
    if not loss.operation.startswith("binary"):
        return logits
    return 1 / (1 + np.exp(-np.asarray(logits, dtype=np.float64)))
