"""Settings of a run that had no effect on some of its steps, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mothtrap.core.facts.captures import SettingIgnored
from mothtrap.report.style import Style

if TYPE_CHECKING:
    from mothtrap.reader.run import Run


class Ignored(msgspec.Struct, frozen=True, kw_only=True):
    """A setting without effect, as shown to the user, and the reason."""

    setting: str
    reason: str


def ignored(run: Run) -> tuple[Ignored, ...]:
    """Return the settings without effect, without duplicates across workers and attempts."""
    seen = run.observations(SettingIgnored)
    found = dict.fromkeys((one.setting, one.reason) for one in seen)
    return tuple(Ignored(setting=setting, reason=reason) for setting, reason in found)


def ignored_lines(found: tuple[Ignored, ...], style: Style) -> list[str]:
    """Return one line per setting without effect."""
    return [f"  {style.safe(one.setting)} had no effect: {style.safe(one.reason)}" for one in found]
