"""Target networks: arguments shaped like the weights, from which targets are computed."""

from __future__ import annotations

from typing import Any, Final

import jax
import numpy as np

from mothtrap.adapters.jax.functions import MOMENTS, Layout, array_kind, name_of
from mothtrap.adapters.jax.shadow import Shadow
from mothtrap.core.adapters import Job
from mothtrap.core.facts.evaluations import EvaluatedCopy
from mothtrap.tracing.describe import episode_ends
from mothtrap.tracing.describe.array_digests import digest_of

OF_TARGETS: Final = (EvaluatedCopy,)
MOST_NETWORKS: Final = 4


class TargetNetworks:
    """Computes digests of the weights from which steps compute their targets.

    Args:
        job: receives the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._looks: dict[Shadow, int] = {}
        self._lines: dict[Shadow, str | None] = {}

    def describe(self, shadow: Shadow, inputs: Any, layout: Layout) -> None:
        """Report the target networks among the arguments of a step with bootstrapped targets."""
        looks = self._looks.get(shadow, 0)
        self._looks[shadow] = looks + 1
        if not looks:  # only the source shows targets that are computed before the loss
            source = episode_ends.bootstrapped(self._job.now.step, 1)
            lines = [*shadow.found.bootstrapped, source.location if source is not None else None]
            self._lines[shadow] = next((line for line in lines if line is not None), None)
        place = self._lines[shadow]
        if place is None:
            return
        self._job.stood_ready(OF_TARGETS)
        for name, leaves in _networks(inputs, layout):
            self._job.fact(
                EvaluatedCopy(
                    step=self._job.now.step,
                    module=f"{name} of {layout.function}",
                    digest=digest_of(map(np.asarray, leaves)),
                    apart=looks,
                    location=place,
                )
            )


def _networks(inputs: Any, layout: Layout) -> list[tuple[str, list[Any]]]:
    """Return arguments with the shapes of all weights, except these and moments, by name."""
    paths = jax.tree_util.tree_flatten_with_path(inputs)[0]
    places = list(layout.weights.values())
    if len(places) < 2 or max(places) >= len(paths):
        return []
    kinds = [array_kind(paths[place][1]) for place in places]
    found: list[tuple[str, list[Any]]] = []
    first = 0
    while first + len(kinds) <= len(paths) and len(found) < MOST_NETWORKS:
        run = range(first, first + len(kinds))
        is_own = any(place in run for place in places)
        if not is_own and [array_kind(paths[place][1]) for place in run] == kinds:
            names = [name_of(paths[place][0]) for place in run]
            if not any(part in MOMENTS for name in names for part in name.split(".")):
                found.append((_shared_name(names), [paths[place][1] for place in run]))
            first += len(kinds)
        else:
            first += 1
    return found


def _shared_name(names: list[str]) -> str:
    """Return the name of the tree to which some leaves belong, without numbers of arguments."""
    shared = []
    for parts in zip(*(name.split(".") for name in names), strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    words = [part for part in shared if not part.isdigit()]
    return ".".join(words) or "the target network"
