"""Matching of recorded events to the calls of a script that runs again.

The script runs unchanged up to the location of the first recorded event. From there on, its calls
are matched with the recorded calls, in order. A call without a counterpart is left to the script,
so an evaluation before the training, for example, runs as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from mothtrap.core.snapshots import (
    BatchHanded,
    ForwardCalled,
    LossCalled,
    RecordedEvent,
    RecordedStep,
    Tree,
)
from mothtrap.snapshot.code_locations import CodeLocations

Event = TypeVar("Event", bound=RecordedEvent)
MAX_REACHED = 8
"""Maximum number of reported locations that were reached instead of the recorded location."""


class Cues:
    """A cursor over the events of recorded steps.

    Args:
        steps: steps in order; at least one.
        places: maps locations in a script that has changed since.

    Attributes:
        begun: an event has been matched.
        reached: the first few calls of the script without a counterpart.
    """

    def __init__(self, steps: Sequence[RecordedStep], places: CodeLocations | None = None) -> None:
        if not steps:
            raise ValueError("a replay needs at least one recorded step; the snapshot has none")
        self._steps, self._places = tuple(steps), places or CodeLocations()
        self._at = 0
        self._next = 0
        self._matched = 0
        self._reported: set[int] = set()
        self._passed_rng: Tree = None
        self.begun = False
        self.reached: list[str] = []

    @property
    def step(self) -> RecordedStep:
        """Step with the next events."""
        return self._steps[self._at]

    @property
    def is_last(self) -> bool:
        """Return whether the cursor is at the target step."""
        return self._at == len(self._steps) - 1

    @property
    def has_begun(self) -> bool:
        """Return whether the step has progressed so far that an optimizer step would end it."""
        return self._matched > 0 or not self._cued()

    @property
    def is_untouched(self) -> bool:
        """Return whether no event of the step has been matched."""
        return self._matched == 0

    def expected(self) -> ForwardCalled | None:
        """Next recorded model call; None if a batch comes first."""
        for event in self.step.events[self._next :]:
            if isinstance(event, BatchHanded):
                return None
            if isinstance(event, ForwardCalled):
                return event
        return None

    def batch(self, loader: int, site: str) -> BatchHanded | None:
        """Return the recorded batch for a loader at a location; None to use its own batch."""
        found = self._find(
            BatchHanded,
            lambda e: self._places.fits(e.site, site) and (e.loader == loader or self.begun),
            lambda e: e.loader == loader,
        )
        if found is None:
            self._note(f"a batch of loader {loader} at {site}")
        return found

    def forward(self, root: str, site: str, *, trains: bool) -> ForwardCalled | None:
        """Return the recorded call of a module at a location."""
        found = self._find(
            ForwardCalled,
            lambda e: e.root == root and self._places.fits(e.site, site) and e.trains == trains,
        )
        if found is None:
            self._note(f"a call to {root} at {site}" + ("" if trains else " without autograd"))
        return found

    def loss(self, function: str, site: str) -> LossCalled | None:
        """Return the recorded call to a loss at a location; each call is returned once."""
        if not self.begun:
            return None
        for number, event in enumerate(self.step.events):
            if (
                isinstance(event, LossCalled)
                and number not in self._reported
                and event.function == function
                and self._places.fits(event.site, site)
            ):
                self._reported.add(number)
                return event
        return None

    def passed_rng(self) -> Tree:
        """Return, once, the random states of events skipped since the last match."""
        found, self._passed_rng = self._passed_rng, None
        return found

    def stepped(self) -> None:
        """Advance to the events after an applied step."""
        self._at = min(self._at + 1, len(self._steps) - 1)
        self._next = self._matched = 0
        self._passed_rng = None
        self._reported.clear()

    def _cued(self) -> bool:
        return any(not isinstance(event, LossCalled) for event in self.step.events)

    def _find(
        self,
        kind: type[Event],
        fits: Callable[[Any], bool],
        fits_better: Callable[[Any], bool] | None = None,
    ) -> Event | None:
        events = self.step.events
        later = [n for n in range(self._next, len(events)) if isinstance(events[n], kind)]
        chosen = [n for n in later if fits(events[n])]
        better = [n for n in chosen if fits_better is None or fits_better(events[n])]
        if not chosen:
            return None
        number = (better or chosen)[0]
        for passed in events[self._next : number]:
            rng = getattr(passed, "rng", None)
            self._passed_rng = rng if rng is not None else self._passed_rng
        event = events[number]
        if getattr(event, "rng", None) is not None:
            self._passed_rng = None
        self._next = number + 1
        self._matched += 1
        self.begun = True
        return event if isinstance(event, kind) else None

    def _note(self, what: str) -> None:
        if not self.begun and what not in self.reached and len(self.reached) < MAX_REACHED:
            self.reached.append(what)
