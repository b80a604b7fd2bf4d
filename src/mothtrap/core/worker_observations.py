"""Facts about one worker of a job of several."""

from __future__ import annotations

from mothtrap.core.observation import Observation


class WorkerPace(Observation, frozen=True, kw_only=True, tag=True):
    """How long the last `steps` steps took on a worker, as medians, in seconds.

    `own_s` is what of a step lies outside of backward, where workers wait for each other.
    """

    steps: int
    step_s: float
    own_s: float
