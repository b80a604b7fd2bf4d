"""Hours in which no messages are sent, as `22:00-07:00` in the time of this machine."""

from __future__ import annotations

import re
import time

from mothtrap.core.errors import ConfigError

_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


def check_hours(text: str) -> None:
    """Check that a text is a valid range of hours; "" is no range.

    Raises:
        ConfigError: the text is invalid.
    """
    if text and _HOURS.fullmatch(text) is None:
        raise ConfigError(f"must be hours such as '22:00-07:00', not {text!r}")


def is_within(text: str, now_s: float) -> bool:
    """Return whether a time lies within a range of hours, excluding its end.

    Args:
        text: the range, which may span midnight; "" = no hours.
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
