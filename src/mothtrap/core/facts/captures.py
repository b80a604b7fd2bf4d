"""Facts about the capture itself: changes, failures, and data that are missing."""

from __future__ import annotations

from typing import Any

from mothtrap.core.fact import Fact


class CaptureChanged(Fact, frozen=True, kw_only=True, tag=True):
    """A change of what is captured while the job runs: by request, or automatically.

    It applies from `from_step` on. `collections` are the names of the collections that are active
    since then; `added` contains the settings of new collections (see `core.config.given`). `error`
    is the reason if nothing was changed. `request` is empty if there was no request: a script under
    `mothtrap run` passed collections to `mothtrap.watch`, or the steps of an earlier request have
    passed.
    """

    request: str
    from_step: int
    collections: tuple[str, ...] = ()
    added: dict[str, dict[str, Any]] = {}
    error: str = ""


class Thinned(Fact, frozen=True, kw_only=True, tag=True):
    """Captures that were skipped to keep within the `overhead` budget.

    Missing data was not inspected, so it says nothing about the training. `step` is the first
    skipped step that was not yet reported, `last_step` the last one; steps between them that have
    values were captured. `what` is the reason for the capture, in words; `kinds` and `statistics`
    describe the skipped data. `count` of `due` captures were skipped; the numbers of all such facts
    with the same `what` add up.
    """

    last_step: int
    what: str
    kinds: tuple[str, ...]
    statistics: tuple[str, ...]
    count: int
    due: int


class Unwatched(Fact, frozen=True, kw_only=True, tag=True):
    """Steps that were not observed because they are too short for the `overhead` budget.

    The steps from `step` to `last_step` took `seconds`. The first 64 steps of a process are always
    watched, and no loss in the others was NaN or infinite. `losses` contains the loss of each step
    (see `core.packed_floats`; NaN = unknown), which belongs to the series `loss_of`; `rates`
    contains the learning rates of the optimizer `rate_of`. Both are empty if the adapter does not
    read them.
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
    """A part of mothtrap failed and was switched off; training continued."""

    part: str
    error: str
    traceback: str = ""


class Dropped(Fact, frozen=True, kw_only=True, tag=True):
    """Captured data that was discarded: a queue was full, or the run reached its size limit."""

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
    """The rule for observing steps in full from `step` on; other steps are observed lightly.

    Steps n and n + 1 are observed in full if n is a multiple of `every`; with `every` = 1, all
    steps are. Other steps may also be, after a signal or because their values were requested.
    """

    every: int
