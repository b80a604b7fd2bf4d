"""Answers about the samples of a step: their identity, other steps with them, and the replay."""

from __future__ import annotations

from typing import Any

import msgspec

from mothtrap.core.facts.samples import DataSeen
from mothtrap.core.steps import Mode
from mothtrap.report.samples import sightings, step_record
from mothtrap.web.opened import OpenRun
from mothtrap.web.replaying import Replays

MOST_ROWS = 1024
"""Maximum number of samples of a step in an answer, of all ranks."""
MOST_PLACES = 200


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """A loss of the step; None = not finite."""

    curve: str
    value: float | None


class Samples(msgspec.Struct, frozen=True, kw_only=True):
    """The samples of a step by rank and batch, as `mothtrap samples --format json` has them.

    `more` is the number of omitted samples. `data` describes the datasets by number. `replayable`
    are steps whose state was stored. `replay` is the result of a replay of this step, or of the
    replay at the end of the job; `command` replays this step, "" if its state was not stored.
    """

    step: int
    losses: list[Loss]
    ranks: list[dict[str, Any]]
    more: int
    data: dict[str, str]
    replayable: tuple[int, ...]
    replay: dict[str, Any] | None
    replay_step: int | None
    command: str
    runs_replays: bool


class Sightings(msgspec.Struct, frozen=True, kw_only=True):
    """Samples that match a text, with the steps that trained on them; `more` are left out."""

    found: list[dict[str, Any]]
    more: int


def samples(opened: OpenRun, step: int, replays: Replays) -> Samples:
    """Return the samples of a step."""
    run, summary = opened.run, opened.summary
    ranks, more = _bounded([step_record(each) for each in run.samples.at(step)])
    replay, replayed = replays.result(opened.path, step), step
    stored = run.replay
    if replay is None and stored is not None:
        replay, replayed = dict(stored.result), stored.step
    kept = tuple(sorted({each.step for each in summary.snapshots}))
    called = summary.called or run.id
    return Samples(
        step=step,
        losses=_losses(opened, step),
        ranks=ranks,
        more=more,
        data={str(seen.data): _about(seen) for seen in run.samples.data()},
        replayable=kept,
        replay=replay,
        replay_step=replayed if replay is not None else None,
        command=f"mothtrap replay {called} --step {step}" if step in kept else "",
        runs_replays=replays.allowed,
    )


def seen(opened: OpenRun, wanted: str) -> Sightings:
    """Return the steps that trained on a sample, by its name, index or digest."""
    found = sightings(opened.run.samples, wanted)
    more = sum(max(0, len(each["steps"]) - MOST_PLACES) for each in found[:MOST_PLACES])
    cut = [{**each, "steps": each["steps"][:MOST_PLACES]} for each in found[:MOST_PLACES]]
    return Sightings(found=cut, more=more + max(0, len(found) - MOST_PLACES))


def _bounded(ranks: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """Keep at most `MOST_ROWS` rows."""
    room, more = MOST_ROWS, 0
    for rank in ranks:
        for batch in rank["batches"]:
            rows = batch.get("samples", [])
            batch["samples"] = rows[: max(0, room)]
            more += max(0, len(rows) - max(0, room))
            room -= len(rows)
    return ranks, more


def _losses(opened: OpenRun, step: int) -> list[Loss]:
    found = []
    for series in opened.run.range(step, step + 1).scalars("loss", Mode.TRAIN):
        for value in series.values_S.tolist():
            number = value if abs(value) < float("inf") else None
            found.append(Loss(curve=f"train/loss:{series.of}", value=number))
    return found


def _about(seen: DataSeen) -> str:
    length = "" if seen.length is None else f" of {seen.length:,}"
    root = f", files in {seen.root}" if seen.root else ""
    return f"{seen.kind}{length}{root}"
