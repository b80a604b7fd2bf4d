"""The part of a boosting library's handle that all of them share, and its replaced functions.

A replaced function calls the original outside of every `try` of ours, passes on what it returns
and raises, and takes its own frame out of the traceback.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mothtrap.core.adapters import Job
from mothtrap.statistics.products import correlation
from mothtrap.tracing.boosting.models import Latest, Model
from mothtrap.tracing.boosting.rounds import Rounds
from mothtrap.tracing.boosting.samples import Samples
from mothtrap.tracing.handle import BaseHandle

Function = Callable[..., Any]
Floats = npt.NDArray[np.float64]
After = Callable[..., None]
AGAINST_ROWS = 10


class OwnLoop:
    """The round in progress of a booster that the script updates itself.

    Args:
        owner: the booster.
        model: the same, as rounds see it.
        made: number of the round, from 0.
    """

    def __init__(self, owner: object, model: Model, made: int) -> None:
        self.owner, self._model, self._made = owner, model, made
        self._latest: dict[str, dict[str, float]] = {}

    def evaluated(self, site: str, metric: str, value: float) -> None:
        """Take a metric that the script asked for."""
        self._latest.setdefault(site, {})[metric] = value

    def close(self, rounds: Rounds) -> None:
        """Tell of the round."""
        rounds.closed(self.owner, self._model, self._made, self._latest, "update")


class Here(threading.local):
    """State of a thread: trainings of several threads are independent.

    `in_library`: within the library's own loop; `depth` counts calls that are not over. `folds`
    has data, metric and value of the latest evaluation of each fold.
    """

    in_library = False
    depth = 0
    loop: OwnLoop | None = None
    folds: Sequence[Sequence[tuple[str, str, float]]] = ()


class BoostingHandle(BaseHandle):
    """A boosting library at work; derive from it and replace functions in `install`.

    Args:
        job: takes what is seen.
        targets: whose trainings are watched; none = all of the process.
        samples: rows of tables, looked at when they are made.
    """

    def __init__(self, job: Job, targets: Sequence[object], samples: Samples) -> None:
        self.samples, self.rounds = samples, Rounds(job, samples)
        self.here = Here()
        self.stops = False
        super().__init__(job, targets)

    def stop(self, _: str) -> bool:
        """End the library's loop after the round in progress."""
        self.stops = True
        return True

    def end(self) -> None:
        """Close the last round."""
        self.end_loop()
        self.rounds.finish()

    def end_loop(self) -> None:
        """Close the round in progress of a loop of the script's own."""
        loop, self.here.loop = self.here.loop, None
        if loop is not None:
            loop.close(self.rounds)

    def stops_now(self) -> bool:
        """Return, once, whether the library's loop is to end."""
        asked, self.stops = self.stops, False
        return asked

    def after(self, owner: Any, name: str, act: After) -> None:
        """Call `act(self, result, args, kwargs)` after a method of the library."""
        self.replacements.around(owner, name, None, lambda *seen: act(*seen[:-1]))

    def look_at_gradients(self, owner: object, gradient: Any, hessian: Any, label: Any) -> None:
        """Tell what an objective of the user's returned."""
        self.job.contain_part(
            "gradients", self.rounds.gradients, owner, _gradients(gradient, hessian, label)
        )


def latest_of(rows: Sequence[tuple[str, str, float]]) -> Latest:
    """Return metrics by name of the data, of rows `(data, metric, value)`."""
    found: dict[str, dict[str, float]] = {}
    for site, metric, value in rows:
        found.setdefault(site, {})[metric] = float(value)
    return found


def _gradients(gradient: Any, hessian: Any, label: Any) -> Mapping[str, Any]:
    gradient_R, hessian_R = (np.asarray(a, np.float64) for a in (gradient, hessian))
    against = None
    label_R = np.asarray(label, np.float64) if label is not None else None
    if label_R is not None and gradient_R.shape == label_R.shape and len(label_R) > AGAINST_ROWS:
        both = np.isfinite(gradient_R) & np.isfinite(label_R)
        if np.ptp(gradient_R[both]) > 0 and np.ptp(label_R[both]) > 0:
            against = correlation(gradient_R[both], label_R[both])
    return {
        "rows": len(gradient_R),
        "against": against,
        "hessians_below": float((hessian_R <= 0).mean()),
        "nonfinite": int((~np.isfinite(gradient_R)).sum() + (~np.isfinite(hessian_R)).sum()),
        **_newton_steps(gradient_R, hessian_R),
    }


def _newton_steps(gradient_R: Floats, hessian_R: Floats) -> dict[str, float]:
    """Return how far, and in which direction, the rows want to move from where they begin."""
    finite = bool(np.isfinite(gradient_R).all() and np.isfinite(hessian_R).all())
    if gradient_R.ndim != 1 or len(gradient_R) < AGAINST_ROWS or not finite:
        return {}
    if (hessian_R <= 0).any():
        return {}
    step_R = -gradient_R / hessian_R
    low, middle, high = np.percentile(step_R, [16, 50, 84])
    up = float((step_R > 0).mean())
    return {
        "shift": float(middle),
        "shift_spread": float(high - low) / 2,
        "one_sided": max(up, 1 - up),
    }
