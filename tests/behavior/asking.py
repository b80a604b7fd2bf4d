"""Functions that run one probe, or all probes, on a small model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mothtrap.behavior.probe import REFUTED, Probe, Suspicion
from mothtrap.behavior.probing import Outcome, run_probes
from mothtrap.behavior.subject import Subject
from mothtrap.behavior.subjects import Request, make_subject


def _patient(request: dict[str, Any]) -> Request:
    """Settings with a budget that a busy machine does not exceed."""
    return Request(**{"budget_s": 3600.0, **request})


def subject_of(predict: Any, X: Any, y: Any, train: Any = None, **request: Any) -> Subject:
    return make_subject(predict, X, y, train, _patient(request))[0]


def suspicions(
    probe: Probe, predict: Any, X: Any, y: Any, train: Any = None, **request: Any
) -> list[Suspicion]:
    found = probe.look(subject_of(predict, X, y, train, **request))
    return [each for each in found if each is not REFUTED]


def outcome(
    probe: Probe, predict: Any, X: Any, y: Any, train: Any = None, **request: Any
) -> Outcome:
    subject, everything = make_subject(predict, X, y, train, _patient(request))
    return run_probes(subject, [probe], everything)


def people(count: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    found = pd.DataFrame(rng.normal(size=(count, 3)), columns=["x0", "x1", "x2"])
    found["age"], found["kind"] = rng.integers(18, 80, count), rng.choice(list("abcd"), count)
    return found


def sure(X: pd.DataFrame, p: float = 0.88) -> np.ndarray:
    """A model that knows the border `x0 > 0`, and how often it is right."""
    one = np.where(X.x0 > 0, p, 1 - p)
    return np.stack([1 - one, one], axis=1)


def labels(X: pd.DataFrame, rate_R: Any, seed: int = 1) -> np.ndarray:
    """The side of the border, and the other side for a share of the rows."""
    clean = (X.x0 > 0).to_numpy().astype(int)
    return np.where(np.random.default_rng(seed).random(len(X)) < rate_R, 1 - clean, clean)
