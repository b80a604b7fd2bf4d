"""Hours in which no messages are sent, as `22:00-07:00` in the time of this machine."""

from __future__ import annotations

import re
import time

from mothtrap.core.errors import ConfigError

_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


def check_hours(text: str) -> None:
    """Prove that a text names hours; "" names none.

    Raises:
        ConfigError: it does not.
    """
    if text and _HOURS.fullmatch(text) is None:
        raise ConfigError(f"must be hours such as '22:00-07:00', not {text!r}")


def is_within(text: str, now_s: float) -> bool:
    """Return whether a time is within hours; the end is outside.

    Args:
        text: the hours, which may pass midnight; "" names none.
        now_s: Unix time.
    """
    match = _HOURS.fullmatch(text)
    if match is None:
        return False
    hour, minute, end_hour, end_minute = map(int, match.groups())
    begin, end = 60 * hour + minute, 60 * end_hour + end_minute
    local = time.localtime(now_s)
    now = 60 * local.tm_hour + local.tm_min
    return begin <= now < end if begin <= end else now >= begin or now < end
