"""The base of all facts that an adapter sees once in a while."""

from __future__ import annotations

import msgspec

from mothtrap.core.steps import Mode


class Observation(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of all observations."""

    step: int
    mode: Mode = Mode.TRAIN
