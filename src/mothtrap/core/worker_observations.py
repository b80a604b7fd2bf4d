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


class ReplicaBatch(Observation, frozen=True, kw_only=True, tag=True):
    """What a model whose gradients are averaged over workers was given in a step.

    The workers are `size` in number, `lowest` is the lowest rank of them. `digest` is made of
    the tensors of all forwards of the step: equal ones mean equal bits (on an accelerator
    equal sums of the elements, read as integers). `location` is the line that called the model.
    """

    lowest: int
    size: int
    digest: str
    location: str | None = None
