"""Localize a step whose processes cannot be copied, by restarting the script under observation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from mothtrap.core.replays import ReplayPlan, ReplayResult, with_localization
from mothtrap.snapshot.row_search import guilty, has_rows_to_blame, went_wrong

MAX_STARTS = 8
"""Maximum number of restarts to verify rows. Chosen by hand: each takes seconds."""

Play = Callable[[ReplayPlan], Sequence[ReplayResult]]


def narrowed(
    plan: ReplayPlan, results: Sequence[ReplayResult], play: Play
) -> tuple[ReplayResult, ...]:
    """Add the results of observed re-execution to a replay of a step that failed.

    Args:
        plan: plan of the current replay.
        results: output of its processes.
        play: repeats the step with another plan.

    Returns:
        The results, unchanged if copies have narrowed them down or if no step is faulty.
    """
    if not any(one.uncopied and (one.nonfinite or one.exception) for one in results):
        return tuple(results)
    watching = msgspec.structs.replace(plan, narrow=False, watch=True)
    ranks = {one.rank for one in results}
    watched = {one.rank: one for one in play(watching) if one.rank in ranks}
    return tuple(
        with_localization(one, _with_rows(watched[one.rank], watching, play))
        if one.rank in watched
        else one
        for one in results
    )


def _with_rows(watched: ReplayResult, plan: ReplayPlan, play: Play) -> ReplayResult:
    """Verify the rows whose results were bad, without searching for other rows."""
    if not watched.suspects or not has_rows_to_blame(watched):
        return watched

    def trial(rows: Sequence[int], *, repeat: bool) -> bool | None:
        some = msgspec.structs.replace(
            plan, rows=tuple(rows), repeat=repeat, micro_batch=watched.micro_batch
        )
        found = [one for one in play(some) if one.rank == watched.rank]
        return went_wrong(found[0], watched, closely=True) if found else None

    verdict = guilty(trial, watched.batch_rows, watched.suspects, most=MAX_STARTS)
    told = (*watched.told, verdict.sentence_of(watched.micro_batch))
    return msgspec.structs.replace(watched, told=told, rows=verdict.rows)
