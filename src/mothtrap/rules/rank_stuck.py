"""DST954: a rank does not reach a collective in which other ranks wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.stalls import WorkerSilent, WorkerStalled
from mothtrap.core.facts.workers import WorkerEnded, WorkerStarted
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window

Stalls = Mapping[int, WorkerStalled]
Ends = Mapping[int, WorkerEnded]
Silences = Mapping[int, WorkerSilent]
STILL_S = 4.0
"""Minimum time that ranks must have waited in a collective; chosen by hand: rank states are
recorded at different times."""
SETTLED_S = 5.0
"""Time for which ranks must still wait after another rank has ended; chosen by hand, five
updates of their states."""
MAX_NAMED = 8
"""Largest number of ranks that a message names; chosen by hand."""


@frozen
class RankStuck(Rule):
    """A rank does not reach a collective in which the other ranks wait.

    What it detects:
        No rank of a job has trained for much longer than a step takes (at least 10 s).
        Some wait in a collective operation, such as `all_reduce`. Another rank is elsewhere and
        idle, has ended, has called fewer collectives, or waits in a different collective.

        In a job with `workers = "merged"`, a worker that shows no sign of life is also reported: it
        neither trains nor reports its position, while most other workers do.

    Why it matters:
        The job hangs and blocks all its devices. It ends only at a timeout, often after 30 minutes,
        with an error that does not name the cause.

    Fires:
        Error that names the rank, its line, and the line at which the others wait. Warning for a
        rank without a sign of life while others train.

    Stays quiet:
        Slow ranks: a rank that computes, reads, or writes is not stuck, no matter how long the
        others wait for it. Ranks that continue to call collectives, as in an evaluation. Jobs of
        one rank. When steps continue, the finding becomes info.

    What to do:
        - Call collectives on all ranks in the same order: never inside `if rank == 0`.
        - Give all ranks the same number of batches: `drop_last=True`, or `Join`.
        - Set `timeout` of the data loader, so that a rank that waits for data fails.
        - Use one process group at a time, or call the groups in the same order everywhere.

    Example:
        if rank == 0:
            dist.barrier()       # the other ranks never call it

    References:
        https://docs.pytorch.org/docs/stable/distributed.html
    """

    code = "DST954"
    title = "stuck rank"
    needs = (Need(facts=(WorkerStalled, WorkerSilent, WorkerStarted, WorkerEnded), optional=True),)
    compares = True
    passes = True
    waits = True

    def check(self, window: Window) -> list[Finding]:
        """Compare the last states of all ranks."""
        windows = (window, *window.peers)
        starts = [start for each in windows for start in each.seen(WorkerStarted)]
        size = max((start.world_size for start in starts), default=1)
        if size < 2:
            raise NotApplicable("the job has one rank")
        if not window.total_steps:
            raise NotEnoughData("no step was recorded")
        ends = {each.worker: end for each in windows for end in each.seen(WorkerEnded)}
        states = {s.rank: s for each in windows for s in each.seen(WorkerStalled)}
        stalled = {r: s for r, s in states.items() if not s.has_resumed and r not in ends}
        waiting = {r: s for r, s in stalled.items() if s.collective and s.collective.waits}
        silences = {s.rank: s for each in windows for s in each.seen(WorkerSilent)}
        silent = {r: s for r, s in silences.items() if not s.has_resumed and r not in ends}
        if silent:
            awaited = len(stalled) + len(ends) + len(silent) >= size
            return [self._no_sign(window, silent, waiting if awaited else {})]
        if not waiting or len(stalled) + len(ends) < size:
            return []  # some still train, or have not reported where they are
        if any(each.still_s < STILL_S for each in waiting.values()):
            return []  # they call further collectives: an evaluation, perhaps
        found = _message(stalled, waiting, ends)
        return [self._finding(window, stalled, *found)] if found is not None else []

    def _no_sign(self, window: Window, silent: Silences, waiting: Stalls) -> Finding:
        return self.finding(
            window,
            severity=Severity.ERROR if waiting else Severity.WARNING,
            step=min(each.step for each in silent.values()),
            workers=tuple(sorted(silent)),
            message=_silent(silent, waiting),
            evidence={"value": max(each.silent_s for each in silent.values())},
        )

    def _finding(
        self, window: Window, stalled: Stalls, ranks: Sequence[int], message: str, where: str | None
    ) -> Finding:
        return self.finding(
            window,
            severity=Severity.ERROR,
            step=min(stalled[rank].step for rank in stalled),
            workers=tuple(ranks),
            message=message,
            location=where,
            evidence={"value": max(each.waited_s for each in stalled.values())},
        )


def _silent(silent: Silences, waiting: Stalls) -> str:
    hosts = sorted({each.host for each in silent.values() if each.host})
    where = f" on {', '.join(hosts[:MAX_NAMED])}" if hosts else ""
    verb = "have shown" if len(silent) > 1 else "has shown"
    since = min(each.step for each in silent.values())
    text = f"{_workers(silent)}{where} {verb} no sign of life since step {since}"
    if all(each.is_node for each in silent.values()):
        text += ", and neither does the launcher there"
    return f"{text}; {_wait(waiting)} in {_collective(waiting)}" if waiting else text


def _message(
    stalled: Stalls, waiting: Stalls, ends: Ends
) -> tuple[Sequence[int], str, str | None] | None:
    """Return the stuck ranks, the message, and the line; None if no rank is stuck."""
    free = {rank: each for rank, each in stalled.items() if rank not in waiting}
    if any(not each.is_idle for each in free.values()):
        return None  # the others wait for a worker that works
    behind = _behind(stalled)
    if free:
        late = {rank: each for rank, each in free.items() if rank in behind} or free
        rank = min(late)
        return sorted(late), _elsewhere(late, waiting), late[rank].location
    if ends:
        newest_s = max(end.at_s for end in ends.values())
        if any(each.at_s < newest_s + SETTLED_S for each in waiting.values()):
            return None  # they may continue or end, and have not reported it yet
        rank = min(ends)
        return sorted(ends), _ended(ends, waiting), ends[rank].location
    if behind:
        rank = min(behind)
        return sorted(behind), _left_out(behind, waiting), behind[rank].location
    if odd := _in_another(waiting):
        text = "ranks wait for each other: " + "; ".join(_by_place(waiting))
        return sorted(odd), text, odd[min(odd)].location
    return None  # all are in the same collective: a slow network, perhaps


def _in_another(waiting: Stalls) -> Stalls:
    """Return the ranks that wait in another collective than most; all if there is a tie."""
    by_call: dict[tuple[str, str], dict[int, WorkerStalled]] = {}
    for rank, each in waiting.items():
        by_call.setdefault(_called(each), {})[rank] = each
    if len(by_call) < 2:
        return {}
    counts = sorted((len(members) for members in by_call.values()), reverse=True)
    if counts[0] == counts[1]:
        return waiting
    most = max(by_call.values(), key=len)
    return {rank: each for rank, each in waiting.items() if rank not in most}


def _behind(stalled: Stalls) -> Stalls:
    """Return the ranks that have called fewer collectives of the group than others."""
    calls = {rank: each.collective for rank, each in stalled.items()}
    groups = {call.group for call in calls.values() if call is not None}
    if len(groups) != 1 or any(call is None or not call.number for call in calls.values()):
        return {}
    numbers = {rank: call.number for rank, call in calls.items() if call is not None}
    most = max(numbers.values())
    return {rank: stalled[rank] for rank, number in numbers.items() if number < most}


def _elsewhere(late: Stalls, waiting: Stalls) -> str:
    places = "; ".join(
        f"{_workers([rank])} is in `{each.function}`{_at(each.location)}"
        for rank, each in sorted(late.items())[:MAX_NAMED]
    )
    noun = "do" if len(late) > 1 else "does"
    return f"{_workers(late)} {noun} not reach {_collective(waiting)}: {places}; {_wait(waiting)}"


def _ended(ends: Ends, waiting: Stalls) -> str:
    reasons = {end.exception for end in ends.values() if end.exception}
    why = f" with {' and '.join(sorted(reasons))[:200]}" if reasons else ""
    noun = "have" if len(ends) > 1 else "has"
    return f"{_workers(ends)} {noun} ended{why}, but {_wait(waiting)} in {_collective(waiting)}"


def _left_out(behind: Stalls, waiting: Stalls) -> str:
    most = max(each.collective.number for each in waiting.values() if each.collective)
    least = min(each.collective.number for each in behind.values() if each.collective)
    places = "; ".join(_by_place(waiting))
    noun = "have" if len(behind) > 1 else "has"
    return (
        f"{_workers(behind)} {noun} called {least} collectives, the others {most}: "
        f"a collective was skipped; {places}"
    )


def _by_place(waiting: Stalls) -> list[str]:
    places: dict[str, list[int]] = {}
    for rank, each in sorted(waiting.items()):
        name = each.collective.name if each.collective else ""
        places.setdefault(f"in {name}{_at(each.location)}", []).append(rank)
    return [
        f"{_workers(ranks)} {'wait' if len(ranks) > 1 else 'waits'} {place}"
        for place, ranks in places.items()
    ]


def _called(each: WorkerStalled) -> tuple[str, str]:
    return (each.collective.name, each.collective.group) if each.collective else ("", "")


def _collective(waiting: Stalls) -> str:
    calls = [each.collective for each in waiting.values() if each.collective]
    first = max(calls, key=lambda call: call.number)
    return f"collective {first.number}, {first.name}" if first.number else first.name


def _wait(waiting: Stalls) -> str:
    seconds = max(each.waited_s for each in waiting.values())
    noun = "have" if len(waiting) > 1 else "has"
    places = sorted({each.location for each in waiting.values() if each.location})
    return f"{_workers(waiting)} {noun} waited for {seconds:.0f} s{_at(', '.join(places[:2]))}"


def _at(place: str | None) -> str:
    return f" ({place})" if place else ""


def _workers(ranks: Mapping[int, object] | Sequence[int]) -> str:
    names = [str(rank) for rank in sorted(ranks)]
    if len(names) == 1:
        return f"rank {names[0]}"
    if len(names) > MAX_NAMED:
        return f"ranks {', '.join(names[:MAX_NAMED])} and {len(names) - MAX_NAMED} more"
    return f"ranks {', '.join(names[:-1])} and {names[-1]}"
