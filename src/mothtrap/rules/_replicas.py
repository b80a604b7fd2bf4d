"""Comparison of digests that must be equal on all workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mothtrap.core.facts.replicas import ReplicaDigests
from mothtrap.core.window import Window

Digests = dict[int, dict[str, str]]
"""By step: digests by module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """First difference between replicas.

    Attributes:
        steps: Steps at which digests differ, ascending; the first is the onset.
        layers: Modules that differ at the onset, in the order of the model.
        odd: Workers outside of the largest group of equal ones; all workers if no two are equal.
        majority: Whether there is such a group.
        workers: Number of workers with digests at the onset.
        compared: Number of modules that could be compared.
        last_equal: Last step before the onset at which all were equal, else None.
    """

    steps: tuple[int, ...] = ()
    layers: tuple[str, ...] = ()
    odd: tuple[int, ...] = ()
    majority: bool = False
    workers: int = 0
    compared: int = 0
    last_equal: int | None = None


def digests_of(window: Window) -> dict[int, Digests]:
    """Return the digests of every worker that recorded some."""
    found = {
        part.worker: {seen.step: seen.digests for seen in part.seen(ReplicaDigests)}
        for part in (window, *window.peers)
    }
    return {worker: digests for worker, digests in found.items() if digests}


def differences(digests: Mapping[int, Digests]) -> Difference:
    """Compare the digests of each step that at least two workers have."""
    differing: list[int] = []
    first: dict[str, dict[int, str]] = {}
    compared: set[str] = set()
    last_equal = None
    for step in sorted({step for own in digests.values() for step in own}):
        there = {worker: own[step] for worker, own in digests.items() if step in own}
        shared = _shared(there)
        compared |= shared.keys()
        unequal = {name: by for name, by in shared.items() if len(set(by.values())) > 1}
        if unequal:
            differing.append(step)
            first = first or unequal
        elif shared and not differing:
            last_equal = step
    if not differing:
        return Difference(compared=len(compared))
    by_worker = next(iter(first.values()))
    odd, majority = _odd_ones(by_worker)
    return Difference(
        steps=tuple(differing),
        layers=tuple(first),
        odd=odd,
        majority=majority,
        workers=len(by_worker),
        compared=len(compared),
        last_equal=last_equal,
    )


def _shared(there: Mapping[int, Mapping[str, str]]) -> dict[str, dict[int, str]]:
    """Return digests by module and worker, without modules that only one worker has."""
    found: dict[str, dict[int, str]] = {}
    for worker, digests in there.items():
        for name, digest in digests.items():
            found.setdefault(name, {})[worker] = digest
    return {name: by for name, by in found.items() if len(by) > 1}


def _odd_ones(by_worker: Mapping[int, str]) -> tuple[tuple[int, ...], bool]:
    groups: dict[str, list[int]] = {}
    for worker, digest in sorted(by_worker.items()):
        groups.setdefault(digest, []).append(worker)
    # If groups have equal size, the one with the lowest worker is the norm.
    largest = max(groups.values(), key=len)
    if len(largest) == 1 and len(by_worker) > 2:
        return tuple(sorted(by_worker)), False
    return tuple(sorted(w for group in groups.values() if group is not largest for w in group)), (
        True
    )
