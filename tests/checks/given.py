"""Data sets of arrays, and checks of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from mothtrap.checks.check import result_of
from mothtrap.checks.subject import Array, DataSet, Rows, Subject
from mothtrap.core.config import Config
from mothtrap.core.facts.checks import CheckResult
from mothtrap.core.findings import Finding
from mothtrap.monitor.catalogue import load_checks


class Given:
    """A dataset of arrays; a part of a dataset if `places` are given."""

    def __init__(
        self,
        x: Array,
        y: Array | None = None,
        role: Literal["train", "evaluation"] = "train",
        *,
        places: Sequence[int] | None = None,
        **more: Any,
    ) -> None:
        self._x, self._y = (x, y) if places is None else (x[places], y[places])
        self.name, self.role = "Table", role
        self.size: int | None = len(self._x)
        self.location: str | None = "train.py:3"
        self.origin: DataSet | None = more.get("origin")
        self.stored: DataSet | None = more.get("stored")
        self.handed: Sequence[Rows] = more.get("handed", ())
        self.random = bool(more.get("random"))
        self.shuffled = bool(more.get("shuffled"))
        self.base, self.places = id(x), places
        self.classes: Sequence[str] = more.get("classes", ())

    def read(self, indices: Sequence[int], deadline: float) -> Rows:
        kept = list(indices)
        targets = None if self._y is None else self._y[kept]
        return Rows(indices=tuple(kept), inputs=(self._x[kept],), targets=targets)


def result(code: str, *sets: DataSet, task: Literal["classes", "numbers", ""] = "") -> CheckResult:
    """Run one check of datasets."""
    [check] = load_checks(Config(select=(code,)))
    return result_of(check, Subject(datasets=sets, task=task), 0)


def finding(code: str, *sets: DataSet, task: Literal["classes", "numbers", ""] = "") -> Finding:
    """Run one check, and return the only fault that it finds."""
    made = result(code, *sets, task=task)
    assert made.state == "done", made.reason
    [found] = made.found
    return found


def passes(code: str, *sets: DataSet, task: Literal["classes", "numbers", ""] = "") -> bool:
    """Run one check, and return whether it passes."""
    made = result(code, *sets, task=task)
    assert made.state == "done", made.reason
    return not made.found and bool(made.passed)


def table(
    rows: int = 400, columns: int = 6, classes: int = 3, seed: int = 0
) -> tuple[Array, Array]:
    """Return random rows, and classes that depend on them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns)).astype(np.float32)
    edges = np.quantile(x[:, :2].sum(1), np.linspace(0, 1, classes + 1)[1:-1])
    return x, np.digitize(x[:, :2].sum(1), edges)
