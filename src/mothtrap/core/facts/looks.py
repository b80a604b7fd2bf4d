"""Facts about what is looked for: where nothing was reported, was anyone looking?"""

from __future__ import annotations

from mothtrap.core.fact import Fact
from mothtrap.core.steps import Mode


class AdapterReports(Fact, frozen=True, kw_only=True, tag=True):
    """All that an adapter can report (see `core.reports`), said at its first step.

    `facts` are tags.
    """

    adapter: str
    kinds: tuple[str, ...] = ()
    scalars: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    modes: tuple[Mode, ...] = ()


class Cannot(Fact, frozen=True, kw_only=True, tag=True):
    """Data that an adapter cannot report in this job, and the reason; `facts` are tags."""

    adapter: str
    why: str
    kinds: tuple[str, ...] = ()
    scalars: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    modes: tuple[Mode, ...] = ()


class Looked(Fact, frozen=True, kw_only=True, tag=True):
    """Observers stood ready to report `facts` (tags) in `how_many` steps from `first` to `last`.

    They are those of an adapter; a later one of the same adapter and fact takes the place of
    an earlier. `missed` are recorded steps of the adapter since `first` in which they did not
    stand ready: 0 means that no step was left out.
    Steps that were not watched at all (`Unwatched`) are not counted.
    """

    facts: tuple[str, ...]
    first: int
    last: int
    how_many: int
    missed: int = 0
    adapter: str = ""
