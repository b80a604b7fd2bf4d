"""Curves of the machine over steps: CPU, memory, disk, network, GPU.

A curve has a name like `machine/cpu_percent/` or `machine/gpu_percent/GPU 0`. Readings are taken
at times; each gets the step that was being made then.
"""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import UnknownNameError
from mothtrap.core.steps import Mode
from mothtrap.core.window import Floats, Ints
from mothtrap.web.opened import OpenRun

PREFIX = "machine/"


def machine_names(opened: OpenRun) -> tuple[str, ...]:
    """Return the names of the machine curves of a run; empty before its first step."""
    return tuple(sorted(_curves(opened)))


def machine_rows(opened: OpenRun, name: str) -> tuple[Ints, Floats]:
    """Return the steps and values of a curve, both of shape (N,).

    Raises:
        UnknownNameError: the run has no such readings.
    """
    curves = _curves(opened)
    if name not in curves:
        raise UnknownNameError(f"there is no curve {name!r} in {opened.run.id}")
    return curves[name]


def _curves(opened: OpenRun) -> dict[str, tuple[Ints, Floats]]:
    return opened.remembered("machine curves", lambda: _read(opened))


def _read(opened: OpenRun) -> dict[str, tuple[Ints, Floats]]:
    run = opened.run
    found: dict[str, list[tuple[Ints, Floats]]] = {}
    for part in run.parts() if run.workers else []:
        row_N = part.commits(Mode.TRAIN)
        step_N, wall_N = part.view.commits.steps[row_N], part.view.commits.wall_s[row_N]
        if not len(step_N):
            continue
        for (name, of), series in opened.machine_series(part.attempt).items():
            inside = (series.times_s >= wall_N[0]) & (series.times_s <= wall_N[-1])
            place = np.searchsorted(wall_N, series.times_s[inside], side="left")
            rows = step_N[place].astype(np.int64), series.values[inside].astype(np.float64)
            found.setdefault(f"{PREFIX}{name}/{of}", []).append(rows)
    joined = {
        name: (np.concatenate([s for s, _ in rows]), np.concatenate([v for _, v in rows]))
        for name, rows in found.items()
    }
    return {name: rows for name, rows in joined.items() if len(rows[0])}
