"""Changes as server-sent events: the page is notified, and fetches the data that it shows.

The id of an event is the cursor of the data read so far. If a page reconnects with an id that is
not current, it is notified immediately, so no change is lost while the server is down.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import msgspec

from mothtrap.core import jsonable
from mothtrap.core.errors import MothtrapError
from mothtrap.web.answers import pace
from mothtrap.web.opened import OpenRun
from mothtrap.web.row_reading import last_activity_s

LIVE_S, IDLE_S = 0.5, 2.0
"""Interval between reads of a running job, and of anything else."""
PING_S = 15.0
RETRY_MS = 1000

Look = Callable[[], Awaitable["Seen"]]


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """State of a part of the page. `cursor` is the id; `kind` is the name of its event."""

    cursor: str
    kind: str = "state"
    state: str = ""
    steps: int = 0
    active_s: float = 0.0
    now_s: float = 0.0
    rate: float = 0.0
    problem: str = ""


def seen_of(opened: OpenRun) -> Seen:
    """Return the state of a run."""
    run = opened.run
    return Seen(
        cursor=run.cursor,
        state=run.state,
        steps=run.steps,
        active_s=last_activity_s(run),
        now_s=time.time(),
        rate=pace(run),
    )


def seen_before(facts: Mapping[str, Any]) -> Seen:
    """Return the final state of a run that has ended, from the facts sent to the page."""
    kept = {name: facts[name] for name in ("cursor", "state", "steps", "active_s", "rate")}
    return Seen(now_s=time.time(), **kept)


def kind_of(before: str, cursor: str) -> str:
    """Return the name of the event between two cursors of a run.

    `state`: there is a new attempt, or the attempt ended; `finding`: rules were evaluated;
        otherwise `step`.
    """
    old, new = before.split("-"), cursor.split("-")
    if len(old) != len(new) or old[0] != new[0] or old[-1] != new[-1]:
        return "state"
    return "finding" if old[2:] != new[2:] else "step"


async def stream(look: Look, last_id: str) -> AsyncIterator[bytes]:
    """Yield events as long as the page is connected.

    Args:
        look: returns the current state.
        last_id: the last id that the page received, or "".
    """
    yield f"retry: {RETRY_MS}\n\n".encode()
    told_s = time.monotonic()
    while True:
        try:
            seen = await look()
        except (MothtrapError, OSError) as err:
            seen = Seen(cursor="gone", problem=str(err))
        if seen.cursor != last_id:
            kind = "problem" if seen.problem else kind_of(last_id, seen.cursor)
            yield _event(kind, seen)
            last_id, told_s = seen.cursor, time.monotonic()
        elif time.monotonic() - told_s > PING_S:
            yield b": ping\n\n"
            told_s = time.monotonic()
        await asyncio.sleep(LIVE_S if seen.state == "running" else IDLE_S)


def _event(kind: str, seen: Seen) -> bytes:
    data = jsonable.shown(msgspec.structs.replace(seen, kind=kind)).decode()
    return f"id: {seen.cursor}\nevent: {kind}\ndata: {data}\n\n".encode()
