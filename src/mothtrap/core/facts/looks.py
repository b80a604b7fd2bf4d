"""Facts about inspections: they show whether a missing report means that nothing is wrong."""

from __future__ import annotations

from mothtrap.core.fact import Fact
from mothtrap.core.steps import Mode


class AdapterReports(Fact, frozen=True, kw_only=True, tag=True):
    """Everything that an adapter can report (see `core.reports`), declared at its first step.

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
    """Observers of an adapter were ready to report `facts` (tags) in some steps.

    A later fact of the same adapter and the same observed fact replaces an earlier one. `missed` is
    the number of the adapter's recorded steps since `first` in which the observers were not ready;
    0 means that no step was missed. Steps that were not watched at all (`Unwatched`) do not count.
    """

    facts: tuple[str, ...]
    first: int
    last: int
    how_many: int
    missed: int = 0
    adapter: str = ""
