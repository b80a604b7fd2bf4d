"""Numbers that a script passes to another logger, recorded as if passed to mothtrap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mothtrap.capture.logged import Logged
from mothtrap.capture.recorder import Recorder
from mothtrap.core.measured import logged_name

MAX_NAMES = 1000
"""Maximum number of stored names; chosen by hand: more means a name for each row or file."""


class LoggedNumbers:
    """Records numbers of all loggers of a process; a value logged twice counts once.

    Args:
        recorder: receives the numbers.
    """

    def __init__(self, recorder: Recorder[Any]) -> None:
        self._recorder = recorder
        self._logged = Logged(recorder, lambda _: None)
        self._latest: dict[str, tuple[int, float]] = {}

    def add(self, values: Mapping[str, Any], before: str = "") -> None:
        """Record the numbers among some values; texts, images and other values are skipped.

        Args:
            values: values by name, possibly in nested mappings.
            before: prefix of the names.
        """
        for key, value in values.items():
            name = f"{before}{key}"
            if isinstance(value, Mapping):
                self.add(value, f"{name}/")
            elif (number := self._number(name, value)) is not None:
                self._take(name, number)

    def _take(self, name: str, number: float) -> None:
        now = self._recorder.steps, number
        if self._latest.get(name) == now or (
            name not in self._latest and len(self._latest) >= MAX_NAMES
        ):
            return
        self._latest[name] = now
        self._logged.number(name, number)

    def _number(self, name: str, value: Any) -> float | None:
        if isinstance(value, bool | int | float):
            return float(value)
        if isinstance(value, str | bytes) or not hasattr(value, "__float__"):
            return None
        if not _is_one(value):
            return None
        device = self._recorder.captures.rows.device
        if device is not None and hasattr(value, "detach") and device.holds([value]):
            # The value is read with the step, so nothing waits for it.
            self._recorder.captures.rows.add_number(
                logged_name(name), "", device.bring(value.detach())
            )
            return None
        try:
            return float(value.detach() if hasattr(value, "detach") else value)
        except (TypeError, ValueError, RuntimeError):  # objects of the user may raise anything
            return None


def _is_one(value: Any) -> bool:
    """Return whether an object, such as an array, has one element."""
    if hasattr(value, "numel"):
        return bool(value.numel() == 1)
    return bool(getattr(value, "size", 1) == 1)
