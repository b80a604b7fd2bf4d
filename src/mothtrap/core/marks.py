"""Remarks of people about findings of a run."""

from __future__ import annotations

from typing import Literal

import msgspec

from mothtrap.core.jsonable import UnixTime


class Mark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A finding was acknowledged, muted or unmuted; the latest mark of a fingerprint counts.

    `until_s` is the Unix time at which muting ends (None: muting does not end); `note` is a remark.
    """

    fingerprint: str
    kind: Literal["acknowledged", "muted", "unmuted"]
    at_s: UnixTime
    by: str = ""
    note: str = ""
    until_s: float | None = None

    def mutes(self, now_s: float) -> bool:
        """Return whether the finding is muted at a Unix time."""
        return self.kind == "muted" and (self.until_s is None or now_s < self.until_s)
