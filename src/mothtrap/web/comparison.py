"""One scalar of many runs on one canvas; a run that has ended is read once for it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mothtrap.core.errors import MothtrapError
from mothtrap.reader.files.commits import ENDLESS
from mothtrap.reader.run import open_run
from mothtrap.web.axes import Axis
from mothtrap.web.buckets import Buckets, bad_bits, joined
from mothtrap.web.listing import RunsFolder
from mothtrap.web.row_reading import parameters_of
from mothtrap.web.series import Curve, Head, packed, scalar_names

MOST_RUNS = 200
MOST_KEPT = 1000
"""Curves of runs that have ended and are kept; chosen by hand: 20 MB."""


class _Found(NamedTuple):
    """The curve of a run, why it has none, and the parameters of the run."""

    buckets: Buckets
    note: str
    parameters: dict[str, str]


_kept: OrderedDict[tuple[Path, float, str, int], _Found] = OrderedDict()


def answer(runs: RunsFolder, names: Sequence[str], scalar: str, *, most: int) -> bytes:
    """Return a scalar of runs as bytes, see `series.packed`; `note` says why one has none.

    Args:
        runs: the list of runs.
        names: of the runs.
        scalar: `train/loss` and the like; of several of that name the first.
        most: buckets of each curve.
    """
    most = max(2, min(most, 1200))
    found, curves = [], []
    for name in names:
        try:
            buckets, note, parameters = _curve(runs.path(name), scalar, most)
        except (MothtrapError, OSError) as err:
            buckets, note, parameters = _nothing(most), str(err), {}
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
    end = max((int(each.step_B[-1]) + 1 for each in found if len(each.step_B)), default=0)
    head = Head(begin=0, end=end, axis="step", curves=curves)
    as_steps: Axis = lambda step_B: step_B.astype(np.float64)  # noqa: E731
    return packed(head, found, as_steps)


def _curve(path: Path, scalar: str, most: int) -> _Found:
    try:
        ended_s = max(end.stat().st_mtime for end in path.glob("*/end.json"))
    except ValueError:
        ended_s = 0.0
    key = (path, ended_s, scalar, most)
    if ended_s and key in _kept:
        _kept.move_to_end(key)
        return _kept[key]
    found = _read(path, scalar, most)
    if ended_s:
        _kept[key] = found
        while len(_kept) > MOST_KEPT:
            _kept.popitem(last=False)
    return found


def _read(path: Path, scalar: str, most: int) -> _Found:
    run = open_run(path)
    names = scalar_names(run)
    options = parameters_of(run.info.command) if run.info else {}
    options |= {name: str(value) for name, value in run.record.parameters.items()}
    chosen = [key for name, key in names.items() if name == scalar or _plain(name) == scalar]
    if not chosen:
        return _Found(_nothing(most), f"{run.id} has no {scalar}", options)
    name, of, mode = chosen[0]
    series = next(s for s in run.scalars(name, mode) if s.of == of)
    buckets = joined(series.steps_S, series.values_S, bad_bits(series.values_S), most)
    return _Found(buckets, "", options)


def _plain(name: str) -> str:
    """A curve's name without its owner: `train/loss` for `train/loss:train.py:9 Adam`."""
    return name.partition(":")[0]


def _nothing(most: int) -> Buckets:
    return joined(np.empty(0, np.int64), np.empty(0), np.empty(0, np.uint8), min(most, ENDLESS))
