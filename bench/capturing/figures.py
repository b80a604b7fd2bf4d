"""Measured times in few numbers."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

BOOTSTRAPS = 2000
P99 = 0.99

Statistic = Callable[[Sequence[int]], float]
"""Of the pairs with these numbers."""


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least a share of the values does not exceed (nearest rank).

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("no values, so no quantile")
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def interval(statistic: Statistic, pairs: Sequence[int]) -> tuple[float, float]:
    """95 % bootstrap interval (percentile method) of a statistic of whole pairs.

    Processes are drawn first, and then pairs of each: pairs of one process are more similar to each
    other than to pairs of another process, which has a different memory layout.

    Args:
        statistic: of all pairs together.
        pairs: how many each process made.
    """
    draw = random.Random(0)
    ends = list(accumulate(pairs))
    processes = [range(end - many, end) for end, many in zip(ends, pairs, strict=True)]

    def drawn() -> list[int]:
        chosen = draw.choices(processes, k=len(processes))
        return [pair for own in chosen for pair in draw.choices(own, k=len(own))]

    found = sorted(statistic(drawn()) for _ in range(BOOTSTRAPS))
    return found[BOOTSTRAPS // 40], found[-BOOTSTRAPS // 40 - 1]


def with_interval(statistic: Statistic, pairs: Sequence[int]) -> list[float]:
    """A statistic of all pairs, and both ends of its interval."""
    return [statistic(range(sum(pairs))), *interval(statistic, pairs)]


def joined(measured: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Combine the measurements of one line from several processes, as if from one process."""
    lists = ("plain_s", "watched_s", "plain_cpu_s", "watched_cpu_s", "own_s")
    return {
        **measured[0],
        **{name: [value for one in measured for value in one[name]] for name in lists},
        "pairs": [len(one["plain_s"]) for one in measured],
        "bytes_per_step": statistics.fmean(one["bytes_per_step"] for one in measured),
        "peak_mb": max(one["peak_mb"] for one in measured),
    }


def median_of(values: Sequence[float]) -> Statistic:
    """The statistic that is the median of one value for each pair."""
    return lambda chosen: statistics.median([values[number] for number in chosen])


def of_pairs(measured: dict[str, Any]) -> dict[str, Any]:
    """Return the values for the table of pairs, from the result of `joined`.

    Times are in ms; lists are a value and both ends of its interval.
    """
    plain_s, watched_s = measured["plain_s"], measured["watched_s"]
    plain_ms, watched_ms = (
        [1e3 * statistics.fmean(s) for s in side] for side in (plain_s, watched_s)
    )
    pairs = measured["pairs"]
    ratios = [w / p for w, p in zip(watched_ms, plain_ms, strict=True)]
    added_ms = [w - p for w, p in zip(watched_ms, plain_ms, strict=True)]
    cpu_ms = (
        [1e3 * s for s in measured["plain_cpu_s"]],
        [1e3 * s for s in measured["watched_cpu_s"]],
    )
    cpu_ratios = [w / p for p, w in zip(*cpu_ms, strict=True)]
    return {
        "pairs": sum(pairs),
        "processes": len(pairs),
        "plain_ms": statistics.median(plain_ms),
        "watched_ms": statistics.median(watched_ms),
        "ratio": with_interval(median_of(ratios), pairs),
        "plain_p99_ms": 1e3 * quantile(_all(plain_s), P99),
        "watched_p99_ms": 1e3 * quantile(_all(watched_s), P99),
        "added_ms": with_interval(median_of(added_ms), pairs),
        "own_ms": 1e3 * statistics.median(measured["own_s"]) if measured["own_s"] else None,
        "plain_cpu_ms": statistics.median(cpu_ms[0]),
        "watched_cpu_ms": statistics.median(cpu_ms[1]),
        "cpu_ratio": with_interval(median_of(cpu_ratios), pairs),
        "kB_per_step": measured["bytes_per_step"] / 1e3,
        "peak_mb": measured["peak_mb"],
    }


def of_p99(measured: dict[str, Any]) -> dict[str, Any]:
    """Return the median and p99 of single steps, in ms, and the ratio of the p99."""
    plain_s, watched_s = measured["plain_s"], measured["watched_s"]

    def ratio(chosen: Sequence[int]) -> float:
        slow, quick = ([side[number] for number in chosen] for side in (watched_s, plain_s))
        return quantile(_all(slow), P99) / quantile(_all(quick), P99)

    plain, watched = _all(plain_s), _all(watched_s)
    return {
        "steps": len(plain),
        "processes": len(measured["pairs"]),
        "plain_ms": 1e3 * statistics.median(plain),
        "plain_p99_ms": 1e3 * quantile(plain, P99),
        "watched_ms": 1e3 * statistics.median(watched),
        "watched_p99_ms": 1e3 * quantile(watched, P99),
        "p99_ratio": with_interval(ratio, measured["pairs"]),
    }


def of_memory(measured: dict[str, Any]) -> dict[str, Any]:
    """Return the memory use over a long run: means over tenths of the run, in MB."""
    resident = measured["resident_mb"]
    tenth = max(1, len(resident) // 10)
    first, last = resident[:1], resident[-tenth:]
    second = resident[tenth : 2 * tenth] or first
    settled_mb, last_mb = statistics.fmean(second), statistics.fmean(last)
    return {
        "first_mb": first[0],
        "settled_mb": settled_mb,
        "last_mb": last_mb,
        "growth_mb": last_mb - settled_mb,
        "peak_mb": measured["peak_mb"],
        "kB_per_step": measured["bytes_per_step"] / 1e3,
    }


def _all(pairs: Sequence[Sequence[float]]) -> list[float]:
    return [step_s for steps in pairs for step_s in steps]
