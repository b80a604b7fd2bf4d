"""Comparison of digests that must be equal on all ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mothtrap.core.facts.replicas import ReplicaDigests, UnwrappedDigests
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.core.window import Window

Digests = dict[int, dict[str, str]]
"""By step: digests by module."""
MOST_OF = 0.9
"""Share of the workers whose reports are awaited; chosen by hand."""
MAX_NAMED = 8
"""Largest number of workers that a message names; chosen by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """First difference between replicas.

    Attributes:
        steps: Steps at which digests differ, ascending; the first is the onset.
        layers: Modules that differ at the onset, in the order of the model.
        odd: Ranks outside of the largest group of equal ranks; all ranks if no two are equal.
        majority: Whether there is such a group.
        ranks: Number of ranks with digests at the onset.
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

    @property
    def onset(self) -> int:
        """Return the step after the last equal step, where the ranks may begin to differ."""
        return self.steps[0] if self.last_equal is None else self.last_equal + 1


def world_size(window: Window) -> int:
    """Return the largest number of ranks that any rank reports; 1 without reports."""
    parts = (window, *window.peers)
    return max((s.world_size for part in parts for s in part.seen(WorkerStarted)), default=1)


def nearly_all(workers: int) -> int:
    """Return the number of ranks that must have reported a step before it is compared.

    Reports of different nodes arrive at different times, and a rank may have stopped.
    """
    return max(2, int(MOST_OF * workers))


def named(window: Window, *workers: int) -> str:
    """Return ranks in words, with their machines in a job of several machines.

    For example "rank 3", "ranks 3, 5", or "rank 3 (node1)".
    """
    parts = (window, *window.peers)
    hosts = {part.worker: s.host for part in parts for s in part.seen(WorkerStarted)}
    many = len(set(hosts.values())) > 1
    words = [f"{w} ({hosts[w]})" if many and hosts.get(w) else str(w) for w in workers]
    more = f" and {len(words) - MAX_NAMED} more" if len(words) > MAX_NAMED else ""
    return f"rank{'s' * (len(words) != 1)} {', '.join(words[:MAX_NAMED])}{more}"


def digests_of(window: Window) -> dict[int, Digests]:
    """Return the digests of every rank that recorded some."""
    found = {
        part.worker: {seen.step: seen.digests for seen in part.seen(ReplicaDigests)}
        for part in (window, *window.peers)
    }
    return {worker: digests for worker, digests in found.items() if digests}


def digests_averaged_by_hand(window: Window) -> dict[int, Digests]:
    """Return digests of parameters that the script itself keeps equal on the ranks.

    These are parameters without a wrapper that had equal values on all ranks before the first
    step. At least one module must have changed and be equal after the first two recorded steps:
    that happens only if gradients or weights are averaged. A module that becomes equal again
    after a difference, as when weights are averaged now and then, is left out.
    """
    told = {p.worker: list(p.seen(UnwrappedDigests)) for p in (window, *window.peers)}
    if len(told) < 2 or not all(told.values()):
        return {}
    by_step = {worker: {seen.step: seen.digests for seen in own} for worker, own in told.items()}
    steps = sorted(set.intersection(*(set(own) for own in by_step.values())))
    initial = [own[0].initial for own in told.values()]
    names = [
        name
        for name, digest in initial[0].items()
        if all(own.get(name) == digest for own in initial)
    ]
    equal = {
        name: [len({own[step].get(name) for own in by_step.values()}) == 1 for step in steps]
        for name in names
    }
    lowest = by_step[min(by_step)]
    averaged = [
        name
        for name in names
        if len(steps) > 1
        and all(equal[name][:2])
        and all(lowest[step].get(name) != initial[0][name] for step in steps[:2])
    ]
    if not averaged:
        return {}
    kept = {name for name in names if equal[name] == sorted(equal[name], reverse=True)}
    return {
        worker: {step: {n: d for n, d in own[step].items() if n in kept} for step in steps}
        for worker, own in by_step.items()
    }


def digests_started_apart(window: Window) -> dict[int, Digests]:
    """Return digests of parameters with equal gradients but different initial values across ranks.

    The script averages gradients itself, and the gradients of at least two recorded steps are equal
    on all ranks. Only the modules whose parameters differed before the first step are returned.
    """
    told = {p.worker: list(p.seen(UnwrappedDigests)) for p in (window, *window.peers)}
    if len(told) < 2 or not all(told.values()):
        return {}
    by_step = {worker: {seen.step: seen for seen in own} for worker, own in told.items()}
    steps = sorted(set.intersection(*(set(own) for own in by_step.values())))
    gradients = [{own[step].gradients for own in by_step.values()} for step in steps]
    if len(steps) < 2 or any(len(seen) > 1 or "" in seen for seen in gradients):
        return {}
    if len({next(iter(seen)) for seen in gradients}) < 2:
        return {}
    initial = [own[0].initial for own in told.values()]
    apart = {n for n in initial[0] if len({own.get(n) for own in initial}) > 1}
    if not apart:
        return {}
    return {
        worker: {step: {n: d for n, d in own[step].digests.items() if n in apart} for step in steps}
        for worker, own in by_step.items()
    }


def trains_one_model(window: Window) -> bool:
    """Return whether the ranks average the gradients of one model, in a wrapper or by hand."""
    wrapped = digests_of(window)
    if len(wrapped) > 1 and differences(wrapped).compared:
        return True
    return bool(digests_averaged_by_hand(window))


def differences(digests: Mapping[int, Digests]) -> Difference:
    """Compare the digests of each step that nearly all ranks have; see `nearly_all`."""
    least = nearly_all(len(digests))
    differing: list[int] = []
    first: dict[str, dict[int, str]] = {}
    compared: set[str] = set()
    last_equal = None
    for step in sorted({step for own in digests.values() for step in own}):
        there = {worker: own[step] for worker, own in digests.items() if step in own}
        if len(there) < least:
            continue
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
    """Return digests by module and rank, without modules that only one rank has."""
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
