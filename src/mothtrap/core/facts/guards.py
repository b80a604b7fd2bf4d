"""Facts about steps that the guard found faulty, and about requested stops."""

from __future__ import annotations

from typing import Literal

from mothtrap.core.fact import Fact


class StepGuarded(Fact, frozen=True, kw_only=True, tag=True):
    """A step with a fault, and the guard's action.

    `action`: `reported` (it was applied), `skipped`, `stopped`, `raised` (it was not), `refused`
    (the script itself did not apply it). `fault` is `loss`, `gradient` (not finite), `norm` (of the
    gradients, too large) or `worker` (bad on another worker); `reason` describes it in words.
    `parameters` are those whose gradients are affected, nearest to the loss first, at most a few of
    `concerned`. `optimizers` are the optimizers that did not step; `applied` are other optimizers
    of the step that had already stepped.
    """

    action: Literal["reported", "skipped", "stopped", "raised", "refused"]
    fault: Literal["loss", "gradient", "norm", "worker"]
    reason: str
    optimizers: tuple[str, ...] = ()
    applied: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    concerned: int = 0
    location: str | None = None


class TrainingStopped(Fact, frozen=True, kw_only=True, tag=True):
    """The training was stopped on request before `step`; `request` is the id of the request.

    `error`: the reason if it was not.
    """

    reason: str = ""
    request: str = ""
    error: str = ""
