"""A reason why a run cannot be repeated."""

from __future__ import annotations

from typing import Literal

import msgspec

State = Literal["will", "may", "cannot tell"]


class Blocker(msgspec.Struct, frozen=True, kw_only=True):
    """A reason why numbers `will` or `may` differ when the run is repeated, or `unknown`.

    `where` is a line, an attribute or a file, as precisely as known.
    """

    state: State
    what: str
    where: str = ""
    fix: str = ""
