"""Histograms of weights and gradients at a few steps of every run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod

from mothtrap.capture.selection import BESIDE_EXPONENTS, LOGGED, Stream, of_first_holder, streams
from mothtrap.core.config import Config
from mothtrap.core.needs import Need
from mothtrap.core.schedule import Schedule
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics.distribution import EXPONENTS

KINDS = ("weight", "gradient")
STEPS = (0, *(digit * 10**power for power in range(1, 8) for digit in (1, 2, 5)))
"""Steps 0, 10, 20, 50, 100 ...: each is a full step if there are further full steps (see
`depths.ROUND`). Twelve captures suffice for 20,000 steps.
"""
MOST_TENSORS = 64
"""Maximum number of tensors of each kind with a histogram; chosen by hand: a run grows by less than
100 kB.
"""
MOST_ELEMENTS = 1 << 22
"""Maximum number of elements of these tensors: counting them takes about 5 ms on one core."""
LEAST_AXES = 2
"""Minimum number of axes: a bias has too few values for a histogram."""


def streams_of_run(
    config: Config, needs: Iterable[Need], own: Iterable[Need]
) -> tuple[Stream, ...]:
    """Return all streams of a run: for rules, collections, histograms, and logged tensors.

    Args:
        config: configuration of the run.
        needs: needs of rules.
        own: needs of the user's rules.
    """
    if config.capture == "off":
        return ()
    return (*streams(config, needs, own), *histograms(config), LOGGED)


def histograms(config: Config) -> tuple[Stream, ...]:
    """Return the histogram stream; empty if the user configured the capture.

    Args:
        config: configuration of the run. `capture = "off"`, `select`, and `collections` turn the
            histograms off.
    """
    if config.capture == "off" or config.select or config.collections:
        return ()
    return tuple(
        Stream(
            name=f"histograms of {kind}s",
            kinds=(kind,),
            statistics=frozenset({EXPONENTS, *BESIDE_EXPONENTS}),
            matches=_matches(config),
            schedules={Mode.TRAIN: Schedule(steps=STEPS)},
            essential=True,
        )
        for kind in KINDS
    )


def _matches(config: Config) -> Callable[[TensorInfo], bool]:
    first = _FirstTensors()
    return of_first_holder(first.matches) if config.workers == "merged" else first.matches


class _FirstTensors:
    """Matches the first tensors of a kind, within limits on number and size."""

    def __init__(self) -> None:
        self._chosen: set[str] = set()
        self._elements = 0

    def matches(self, info: TensorInfo) -> bool:
        """Return whether a tensor has histograms; the answer for a name never changes."""
        if info.name in self._chosen:
            return True
        size = prod(info.shape)
        is_small = self._elements + size <= MOST_ELEMENTS
        if len(info.shape) < LEAST_AXES or len(self._chosen) >= MOST_TENSORS or not is_small:
            return False
        self._chosen.add(info.name)
        self._elements += size
        return True
