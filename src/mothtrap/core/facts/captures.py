"""Facts about the capture itself: changes, failures, and data that are missing."""

from __future__ import annotations

from typing import Any

from mothtrap.core.fact import Fact


class CaptureChanged(Fact, frozen=True, kw_only=True, tag=True):
    """A change of capture while the job ran: by a request, or by itself.

    It counts from `from_step` on. `collections` are those in force since then, by name;
    `added` what those say that came (see `core.config.given`). `error` says why nothing was
    changed. `request` is empty where there was none: a script that `mothtrap run` started gave
    collections to `mothtrap.watch`, or what was asked for some steps is over.
    """

    request: str
    from_step: int
    collections: tuple[str, ...] = ()
    added: dict[str, dict[str, Any]] = {}
    error: str = ""


class Thinned(Fact, frozen=True, kw_only=True, tag=True):
    """Captures that were skipped to stay within the budget `overhead`.

    What is not there was not looked at: it says nothing about the training. `step` is the
    first skipped step that was not told before, `last_step` the last; the steps between
    them that have values were captured. `what` is the reason to capture, in words, `kinds`
    and `statistics` what would have been captured. `count` of `due` captures were skipped;
    the numbers of all such facts of one `what` add up.
    """

    last_step: int
    what: str
    kinds: tuple[str, ...]
    statistics: tuple[str, ...]
    count: int
    due: int


class Unwatched(Fact, frozen=True, kw_only=True, tag=True):
    """Steps that were not watched at all: they are too short for the budget `overhead`.

    Those from `step` to `last_step` took `seconds`. The first 64 steps of a process are
    always watched, and no loss among the others was NaN or infinite. `losses` has the loss of
    each step (see `core.packed_floats`; NaN = unknown), which belongs to the series `loss_of`;
    `rates` has its learning rates, of the optimizer `rate_of`. Both are empty where the adapter
    does not read them.
    """

    last_step: int
    seconds: float
    losses: str = ""
    loss_of: str = ""
    rates: str = ""
    rate_of: str = ""

    @property
    def count(self) -> int:
        """Return the number of steps."""
        return self.last_step + 1 - self.step


class Blind(Fact, frozen=True, kw_only=True, tag=True):
    """Part of the training that was not observed, with the reason."""

    what: str
    reason: str


class SettingIgnored(Fact, frozen=True, kw_only=True, tag=True):
    """A setting (as shown to the user) that has no effect on some steps, and the reason."""

    setting: str
    reason: str


class ToolError(Fact, frozen=True, kw_only=True, tag=True):
    """A part of mothtrap failed and was switched off; training went on."""

    part: str
    error: str
    traceback: str = ""


class Dropped(Fact, frozen=True, kw_only=True, tag=True):
    """Captured data that was given up: a queue was full, or the run at its size limit."""

    what: str
    count: int
    reason: str


class NumberLogged(Fact, frozen=True, kw_only=True, tag=True):
    """Number that a script logged with the time of its measurement.

    `name` is the name of the scalar, which is also recorded in the step. `time_s` is a Unix time in
    seconds.
    """

    name: str
    value: float
    time_s: float


class FullSteps(Fact, frozen=True, kw_only=True, tag=True):
    """The rule by which steps are watched in full from `step` on; the others are light.

    Those n and n + 1 are, where n is a multiple of `every`; with `every` = 1 all are. Further
    ones may be: after a signal, or because values of theirs were requested.
    """

    every: int
