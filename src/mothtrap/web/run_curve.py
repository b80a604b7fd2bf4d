"""One scalar of one run, for a chart of several runs."""

from __future__ import annotations

import numpy as np

from mothtrap.core.masking import shareable
from mothtrap.reader.files.commits import ENDLESS
from mothtrap.reader.run import Run
from mothtrap.web.buckets import Buckets, bad_bits, joined
from mothtrap.web.curve_cache import FoundCurve
from mothtrap.web.row_reading import parameter_texts
from mothtrap.web.series import scalar_names

USUAL_SCALAR, USUAL_BUCKETS = "train/loss", 300
"""The curve of many selected runs; the page reads it with the row of a run."""


def about(scalar: str, most: int) -> str:
    """Return the cache key of a scalar's curves."""
    return f"{scalar} {most}"


def curve_of(run: Run, scalar: str, most: int) -> FoundCurve:
    """Return a scalar of a run; if several have the name, the first."""
    names = scalar_names(run)
    options = shareable(parameter_texts(run))  # curves are sent as bytes, which nothing masks
    chosen = [key for name, key in names.items() if name == scalar or _plain(name) == scalar]
    if not chosen:
        return FoundCurve(nothing(most), f"{run.id} has no {scalar}", options)
    name, of, mode = chosen[0]
    series = next(s for s in run.scalars(name, mode) if s.of == of)
    buckets = joined(series.steps_S, series.values_S, bad_bits(series.values_S), most)
    return FoundCurve(buckets, "", options)


def _plain(name: str) -> str:
    """A curve's name without its owner: `train/loss` for `train/loss:train.py:9 Adam`."""
    return name.partition(":")[0]


def nothing(most: int) -> Buckets:
    """Return a curve without points."""
    return joined(np.empty(0, np.int64), np.empty(0), np.empty(0, np.uint8), min(most, ENDLESS))
