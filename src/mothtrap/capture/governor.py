"""Keeps captures within their share of the training time."""

from __future__ import annotations


class Governor:
    """A purse: every step pays in a share of its time, every capture takes its cost out.

    A stream whose expected cost the purse cannot pay is thinned: skipped this time. Each
    stream may run twice before its cost is known. Streams that hold the non-finite checks
    never ask. The purse holds at most `PURSE_STEPS` captures of the dearest stream, so
    that a long pause does not buy a burst.

    Args:
        overhead: share of the training time, e.g. 0.02; 0 turns the governor off.
    """

    PURSE_STEPS = 4
    TRIAL_RUNS = 2
    SMOOTHING = 0.3
    """Weight of the newest cost in the running mean; chosen by hand."""

    def __init__(self, overhead: float) -> None:
        self._overhead = overhead
        self._purse_s = 0.0
        self._cost_s: dict[str, float] = {}
        self._runs: dict[str, int] = {}
        self._asked: dict[str, int] = {}
        self._refused: dict[str, int] = {}

    def earn(self, step_s: float) -> None:
        """Pay in the share of one step that took `step_s` seconds."""
        dearest = max(self._cost_s.values(), default=0.0)
        limit = self.PURSE_STEPS * max(dearest, self._overhead * step_s)
        self._purse_s = min(self._purse_s + self._overhead * step_s, limit)

    def admits(self, stream: str) -> bool:
        """Whether the stream may capture in this step."""
        self._asked[stream] = self._asked.get(stream, 0) + 1
        if not self._overhead or self._runs.get(stream, 0) < self.TRIAL_RUNS:
            return True
        if self._purse_s >= self._cost_s.get(stream, 0.0):
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
        self._purse_s -= cost_s

    @property
    def shed(self) -> tuple[str, ...]:
        """What was thinned, in words."""
        return tuple(
            f"{stream} statistics: {refused} of {self._asked[stream]} captures skipped"
            for stream, refused in sorted(self._refused.items())
        )
