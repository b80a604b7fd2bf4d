"""Everything that an adapter can ever report."""

from __future__ import annotations

import msgspec

from mothtrap.core.fact import Fact
from mothtrap.core.steps import Mode


class Reports(msgspec.Struct, frozen=True, kw_only=True):
    """The kinds of tensors, scalars, facts and modes that can come from an adapter.

    A rule that requires data that no adapter of the job can report does not apply. Scalars that
    users log belong to no adapter, and need not be listed.
    """

    kinds: frozenset[str] = frozenset()
    scalars: frozenset[str] = frozenset()
    facts: frozenset[type[Fact]] = frozenset()
    modes: frozenset[Mode] = frozenset()
