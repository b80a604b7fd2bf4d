"""Samples that occur in bad steps more often than by chance.

Shape suffix: S = steps.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from mothtrap.core.findings import Finding
from mothtrap.core.window import Bools, Floats, Series
from mothtrap.reader.samples.sample_index import Sample, StepSamples

SPAN = 101
"""Number of surrounding steps with which a loss is compared; chosen by hand."""
SCALES = 8.0
"""Robust standard deviations above the median from which a loss is bad; chosen by hand: noise with
long tails reaches it about once in 10,000 steps.
"""
RISE = 0.5
"""Minimum share of the median by which a bad loss exceeds it; chosen by hand."""
MAD_TO_STD = 1.4826
FEWEST = 10
"""Minimum number of losses for a comparison."""
CHUNK = 4096
"""Number of steps that are compared at once: 3 MB of memory."""
LIKELY_CHANCE = 0.05
"""Probability from which a deviation counts as chance; the usual level."""

Place = tuple[int, int]
"""Rank of a worker, and a step of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """One sample and the steps that trained on it.

    Attributes:
        bad: number of bad steps among them.
        steps: number of steps that trained on it.
        lift: share of bad steps, relative to the share in the whole run.
        chance: probability of this many bad steps for the most extreme sample if samples had no
            effect; at most 1.
    """

    sample: Sample
    bad: int
    steps: int
    lift: float
    chance: float

    @property
    def stands_out(self) -> bool:
        """Return whether chance is an unlikely explanation."""
        return self.chance < LIKELY_CHANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspects:
    """Samples of bad steps, samples that are least likely by chance first.

    Attributes:
        bad_steps: bad steps with known samples, counted for each worker.
        steps: steps with known samples, counted for each worker.
        samples: number of distinct samples in these steps.
    """

    bad_steps: int
    steps: int
    samples: int
    ranked: tuple[Suspect, ...]


def rank(steps: Iterable[StepSamples], bad: Collection[Place]) -> Suspects:
    """Rank the samples of bad steps.

    Args:
        steps: samples of each step; iterated once.
        bad: the bad steps.
    """
    wanted, in_bad, in_all = frozenset(bad), Counter[Sample](), Counter[Sample]()
    total = bad_steps = 0
    for step in steps:
        distinct = {sample for batch in step.batches for sample in batch.samples}
        if not distinct:
            continue
        total += 1
        in_all.update(distinct)
        if (step.worker, step.step) in wanted:
            bad_steps += 1
            in_bad.update(distinct)
    ranked = []
    for sample, count in in_bad.items():
        rate, times = bad_steps / total, in_all[sample]
        chance = min(1.0, at_least(count, times, rate) * len(in_all))
        lift = count / times / rate
        ranked.append(Suspect(sample=sample, bad=count, steps=times, lift=lift, chance=chance))
    ranked.sort(key=lambda s: (s.chance, at_least(s.bad, s.steps, bad_steps / total), s.sample))
    return Suspects(bad_steps=bad_steps, steps=total, samples=len(in_all), ranked=tuple(ranked))


def at_least(count: int, times: int, rate: float) -> float:
    """Return the probability of `count` or more bad steps among `times` steps.

    Args:
        count: at most `times`.
        times: steps.
        rate: share of the run's steps that are bad, as if they were drawn at random.
    """
    if rate >= 1 or count <= 0:
        return 1.0
    logs = [
        math.lgamma(times + 1)
        - math.lgamma(k + 1)
        - math.lgamma(times - k + 1)
        + k * math.log(rate)
        + (times - k) * math.log1p(-rate)
        for k in range(count, times + 1)
    ]
    largest = max(logs)
    return min(1.0, math.exp(largest) * sum(math.exp(log - largest) for log in logs))


def outliers(series: Series) -> list[int]:
    """Return the steps whose value is not finite, or far above the surrounding values."""
    loss_S, steps_S = series.values_S, series.steps_S
    bad_S: Bools = ~np.isfinite(loss_S)
    finite_S = np.flatnonzero(~bad_S)
    bad_S[finite_S[_far_above(loss_S[finite_S])]] = True
    return [int(step) for step in steps_S[bad_S]]


def steps_of(found: Iterable[Finding], series: Iterable[tuple[int, Series]]) -> dict[Place, None]:
    """Return the steps of findings: onset, last step, and bad losses in between.

    Args:
        found: findings.
        series: losses in training, each with the rank of its worker.
    """
    losses = [(worker, outliers(each)) for worker, each in series]
    places: dict[Place, None] = {}
    for finding in found:
        last = max(finding.step, finding.last_step)
        places |= dict.fromkeys((w, s) for w in finding.workers for s in (finding.step, last))
        if finding.count > 1:
            within = ((w, s) for w, steps in losses for s in steps if finding.step <= s <= last)
            places |= dict.fromkeys(place for place in within if place[0] in finding.workers)
    return places


def _far_above(loss_S: Floats) -> Bools:
    """Return which losses are far above the median of the surrounding losses."""
    found = np.zeros(len(loss_S), np.bool_)
    span = min(SPAN, len(loss_S))
    if span < FEWEST:
        return found
    last = len(loss_S) - span
    for begin in range(0, len(loss_S), CHUNK):
        place_S = np.arange(begin, min(begin + CHUNK, len(loss_S)))
        first_S = np.clip(place_S - span // 2, 0, last)
        windows_SW = loss_S[first_S[:, None] + np.arange(span)]
        level_S = np.median(windows_SW, axis=1)
        spread_S = np.median(np.abs(windows_SW - level_S[:, None]), axis=1)
        over_S = loss_S[place_S] - level_S
        far_S = over_S > SCALES * MAD_TO_STD * spread_S
        found[place_S] = far_S & (over_S > RISE * np.abs(level_S))
    return found
