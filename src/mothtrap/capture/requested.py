"""Streams requested during a job, whose schedules begin at their activation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import msgspec

from mothtrap.capture.selection import Stream, of_collection
from mothtrap.core.collections import REQUEST, Collection
from mothtrap.core.schedule import Schedule
from mothtrap.core.steps import Mode


def requested(
    name: str, collection: Collection, first: Mapping[Mode, int], for_steps: int | None
) -> tuple[Stream, ...]:
    """Return the streams of a collection, with steps counted from its activation.

    Args:
        name: name of the collection.
        collection: collection with schedules that begin at 0.
        first: first counted step, by mode.
        for_steps: number of steps in each mode; None = until the end.
    """
    if for_steps is not None:
        collection = msgspec.structs.replace(collection, on=(REQUEST,), for_steps=for_steps)
    return tuple(
        dataclasses.replace(
            stream,
            schedules={
                mode: _counted_from(first[mode], schedule, for_steps)
                for mode, schedule in stream.schedules.items()
            },
        )
        for stream in of_collection(name, collection)
    )


def _counted_from(first: int, schedule: Schedule, for_steps: int | None) -> Schedule:
    stops = [stop for stop in (schedule.stop, for_steps) if stop is not None]
    steps = [step for step in schedule.steps if for_steps is None or step < for_steps]
    only_steps = bool(schedule.steps) and schedule.every is None and not schedule.logarithmic
    if only_steps and not steps:
        stops = [schedule.start]  # without steps, it would mean every step
    return Schedule(
        every=schedule.every,
        start=first + schedule.start,
        stop=first + min(stops) if stops else None,
        steps=tuple(first + step for step in steps),
        logarithmic=schedule.logarithmic,
    )
