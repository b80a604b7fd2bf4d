"""One scalar of many runs in one chart; a run that has ended is read only once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mothtrap.core.errors import MothtrapError
from mothtrap.reader.run import open_run
from mothtrap.store.run_fingerprint import fingerprint
from mothtrap.web.axes import Axis
from mothtrap.web.curve_cache import FoundCurve
from mothtrap.web.listing import RunsFolder
from mothtrap.web.run_curve import about, curve_of, nothing
from mothtrap.web.series import Curve, Head, packed

MOST_RUNS = 200
MOST_KEPT = 1000
"""Curves of runs that have ended and are kept; chosen by hand: 20 MB."""


_kept: OrderedDict[tuple[Path, str, str, int], FoundCurve] = OrderedDict()


def answer(runs: RunsFolder, names: Sequence[str], scalar: str, *, most: int) -> bytes:
    """Return a scalar of several runs as bytes, see `series.packed`; `note` explains gaps.

    Args:
        runs: the list of runs.
        names: names of the runs.
        scalar: a name such as `train/loss`; if there are several series of this name, the first
            counts.
        most: maximum number of buckets per curve.
    """
    most = max(2, min(most, 1200))
    found, curves = [], []
    cached = runs.curves.read(names, about(scalar, most))
    fresh: list[tuple[str, str, FoundCurve]] = []
    for name in names:
        try:
            buckets, note, parameters = _curve(runs, name, scalar, most, cached.get(name), fresh)
        except (MothtrapError, OSError) as err:
            buckets, note, parameters = nothing(most), str(err), {}
        found.append(buckets)
        curves.append(
            Curve(
                name=name,
                count=len(buckets.step_B),
                width=buckets.width,
                note=note,
                parameters=parameters,
            )
        )
    runs.curves.write(about(scalar, most), fresh)
    end = max((int(each.step_B[-1]) + 1 for each in found if len(each.step_B)), default=0)
    head = Head(begin=0, end=end, axis="step", curves=curves)
    as_steps: Axis = lambda step_B: step_B.astype(np.float64)  # noqa: E731
    return packed(head, found, as_steps)


def _curve(
    runs: RunsFolder,
    name: str,
    scalar: str,
    most: int,
    cached: tuple[str, FoundCurve] | None,
    fresh: list[tuple[str, str, FoundCurve]],
) -> FoundCurve:
    """Return a curve; if it should be cached and is not cached yet, add it to `fresh`."""
    path = runs.path(name)
    look = fingerprint(path)
    if cached is not None and look.digest and cached[0] == look.digest:
        return cached[1]
    key = (path, look.digest, scalar, most)
    if look.digest and key in _kept:
        _kept.move_to_end(key)
        return _kept[key]
    run = open_run(path)
    found = curve_of(run, scalar, most)
    if run.end is not None:
        _kept[key] = found
        while len(_kept) > MOST_KEPT:
            _kept.popitem(last=False)
        if look.is_settled:
            fresh.append((name, look.digest, found))
    return found
