"""Follow many runs at once: named runs, or all runs that appear in a location."""

from __future__ import annotations

import functools
import math
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

from mothtrap.core import jsonable
from mothtrap.core.config import Config
from mothtrap.core.errors import MothtrapError
from mothtrap.session.monitoring.follower import Follower
from mothtrap.store import layout
from mothtrap.store.leases import LEASE_S
from mothtrap.store.objects import is_url, join, open_store

LOOK_EVERY_S = 0.5
"""Interval between reads of the runs; chosen by hand."""
LIST_EVERY_S = 2.0
"""Interval between searches for new runs; chosen by hand."""
AT_ONCE = 8
"""Number of runs that are inspected concurrently, because object stores mostly cause waiting."""
Say = Callable[[str], None]
T = TypeVar("T")


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Work of one monitor process.

    Attributes:
        places: paths or URLs of runs, and of folders of runs.
        config: JSON of the configuration, with the secrets of its actions.
        is_chosen: whether the user has chosen rules, see `Follower`.
        awaits_new: also follow runs that appear later, and never end.
        of: number of processes that share the runs.
        cwd: folder in which the monitor was started.
    """

    places: tuple[str, ...]
    config: str
    is_chosen: bool = False
    awaits_new: bool = False
    of: int = 1
    cwd: str = ""


def work(data: bytes) -> int:
    """Follow runs in this process; see `RunsFollower`.

    Args:
        data: a `Task` as JSON.

    Returns:
        The number of runs that were followed to their end.
    """
    task = jsonable.decode(data, Task)
    if task.cwd and os.path.isdir(task.cwd):
        os.chdir(task.cwd)
    config = msgspec.json.decode(task.config, type=Config)
    return RunsFollower(
        task.places,
        config,
        _silent,
        is_chosen=task.is_chosen,
        awaits_new=task.awaits_new,
        of=task.of,
    ).run()


def _silent(_line: str) -> None:
    """Ignore the text, because a worker of an engine has no terminal."""


class RunsFollower:
    """Follows runs, each with a lease, so that any number of monitors can share a place.

    Without an explicit choice of rules only runs that were started with `--no-rules` are
    followed: the job evaluates the rules of the others.

    Args:
        places: paths or URLs of runs, and of folders of runs.
        config: configuration of the active rules and the actions.
        say: prints one line for the user.
        is_chosen: whether the user has chosen rules, see `Follower`.
        awaits_new: also follow runs that appear later, and never end.
        of: number of processes that share the runs.

    Attributes:
        followed: number of runs that were followed to their end.
        left_out: runs whose job evaluates the rules itself.
    """

    def __init__(
        self,
        places: Sequence[str],
        config: Config,
        say: Say,
        *,
        is_chosen: bool = False,
        awaits_new: bool = False,
        of: int = 1,
    ) -> None:
        self._is_chosen = is_chosen
        self._places, self._config, self._say = places, config, say
        self._awaits_new, self._of = awaits_new, of
        self._following: dict[str, Follower] = {}
        self._done: dict[str, int] = {}
        self._listed_s = float("-inf")
        self._failed: dict[str, str] = {}
        self.followed = 0
        self.left_out: set[str] = set()

    def run(self, until: Callable[[], bool] = lambda: False) -> int:
        """Follow until all runs have ended (without `awaits_new`), or `until` returns True.

        Returns:
            The number of runs that were followed to their end.
        """
        try:
            with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="mothtrap monitor") as pool:
                while not until():
                    began_s = time.monotonic()
                    self._find()
                    list(pool.map(self._look, list(self._following.values())))
                    self._take_ended()
                    if not (self._awaits_new or self._following):
                        break
                    time.sleep(max(0.0, began_s + LOOK_EVERY_S - time.monotonic()))
        finally:
            for follower in self._following.values():
                follower.close()
        return self.followed

    def _find(self) -> None:
        """Start to follow runs that are new."""
        if time.monotonic() - self._listed_s < LIST_EVERY_S:
            return
        self._listed_s = time.monotonic()
        for named in self._places:
            for place in self._contained(named, functools.partial(runs_at, named)) or ():
                if self._is_new(place):
                    self._contained(place, functools.partial(self._follow, place))

    def _is_new(self, place: str) -> bool:
        if place in self._following or place in self.left_out:
            return False
        done = self._done.get(place, 0)
        return not done or (not is_url(place) and len(layout.attempts(Path(place))) > done)

    def _follow(self, place: str) -> None:
        follower = Follower(place, self._config, self._say, is_chosen=self._is_chosen)
        if follower.is_meant:
            self._following[place] = follower
        else:
            self.left_out.add(place)

    def _look(self, follower: Follower) -> None:
        if follower.has_lease or self._may_take(follower):
            self._contained(follower.place, follower.look)

    def _may_take(self, follower: Follower) -> bool:
        """Return whether to request a lease; beyond its share, a process waits for others."""
        share = math.ceil(len(self._following) / self._of)
        held = sum(each.has_lease for each in self._following.values())
        return held < share or time.monotonic() - follower.opened_s > LEASE_S

    def _take_ended(self) -> None:
        for place, follower in list(self._following.items()):
            if follower.is_done:
                self._done[place] = follower.attempts
                self.followed += 1
                del self._following[place]
                self._say(f"mothtrap: monitor: {place}: ended after {follower.steps} steps")

    def _contained(self, what: str, act: Callable[[], T]) -> T | None:
        """Call a function; a failure is printed once, and the call is repeated later."""
        try:
            found = act()
        except (MothtrapError, OSError) as err:
            text = str(err)
        except Exception as err:  # failure of one run: the others continue
            text = f"{type(err).__name__}: {err}"
        else:
            self._failed.pop(what, None)
            return found
        if self._failed.get(what) != text:
            self._failed[what] = text
            self._say(f"mothtrap: monitor: {what}: {text}")
        return None


def runs_at(place: str) -> list[str]:
    """Return the runs at a place: itself, or the runs in it.

    Raises:
        StoreError: the object store cannot be reached, or rejects the request.
    """
    if not is_url(place):
        path = Path(place)
        return [place] if layout.attempts(path) else [str(run) for run in layout.list_runs(path)]
    store = open_store(place)
    folders = store.children("").folders
    first = str(layout.FIRST_ATTEMPT)
    if first in folders and store.children(first).objects:
        return [place]
    return [join(place, name) for name in folders]
