"""Facts about captures that were due and not made."""

from __future__ import annotations

from mothtrap.core.observation import Observation


class Thinned(Observation, frozen=True, kw_only=True, tag=True):
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
