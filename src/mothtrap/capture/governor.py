"""Keeps captures within their share of the training time."""

from __future__ import annotations


class Governor:
    """A purse for each stream: every step pays in a share of its time, captures take out.

    All purses get the same; what a full one does not take goes to the others. So a cheap
    stream starves no dear one. A stream whose expected cost its purse cannot pay is
    thinned: skipped this time. Each stream may run twice before its cost is known.
    Streams that hold the non-finite checks never ask. A purse holds at most `PURSE_STEPS`
    captures, so that a long pause does not buy a burst.

    Args:
        overhead: share of the training time, e.g. 0.02; 0 turns the governor off.
    """

    PURSE_STEPS = 4
    TRIAL_RUNS = 2
    SMOOTHING = 0.3
    """Weight of the newest cost in the running mean; chosen by hand."""

    def __init__(self, overhead: float) -> None:
        self._overhead = overhead
        self._purse_s: dict[str, float] = {}
        self._cost_s: dict[str, float] = {}
        self._runs: dict[str, int] = {}
        self._asked: dict[str, int] = {}
        self._refused: dict[str, int] = {}

    def earn(self, step_s: float) -> None:
        """Pay in the share of one step that took `step_s` seconds."""
        pay_s = self._overhead * step_s
        room_s = {}
        for stream, purse_s in self._purse_s.items():
            limit_s = self.PURSE_STEPS * max(self._cost_s.get(stream, 0.0), pay_s)
            self._purse_s[stream] = min(purse_s, limit_s)
            room_s[stream] = limit_s - self._purse_s[stream]
        for waiting, stream in zip(
            range(len(room_s), 0, -1), sorted(room_s, key=room_s.__getitem__), strict=True
        ):
            part_s = min(pay_s / waiting, room_s[stream])
            self._purse_s[stream] += part_s
            pay_s -= part_s

    def admits(self, stream: str) -> bool:
        """Whether the stream may capture in this step."""
        purse_s = self._purse_s.setdefault(stream, 0.0)
        self._asked[stream] = self._asked.get(stream, 0) + 1
        if not self._overhead or self._runs.get(stream, 0) < self.TRIAL_RUNS:
            return True
        if purse_s >= self._cost_s.get(stream, 0.0):
            return True
        self._refused[stream] = self._refused.get(stream, 0) + 1
        return False

    def spent(self, stream: str, cost_s: float) -> None:
        """Tell what one capture of a stream cost."""
        runs = self._runs[stream] = self._runs.get(stream, 0) + 1
        known = self._cost_s.get(stream, cost_s)
        if runs <= self.TRIAL_RUNS:  # the first capture pays for imports and caches
            self._cost_s[stream] = cost_s
            return
        self._cost_s[stream] = known + self.SMOOTHING * (cost_s - known)
        self._purse_s[stream] = self._purse_s.get(stream, 0.0) - cost_s

    @property
    def shed(self) -> tuple[str, ...]:
        """What was thinned, in words."""
        return tuple(
            f"{stream}: {refused} of {self._asked[stream]} captures skipped"
            for stream, refused in sorted(self._refused.items())
        )
