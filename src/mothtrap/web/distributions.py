"""Distribution of a tensor's values over steps: shares by sign and power of two.

Shape suffixes: S = captured moments, B = bins of `statistics.exponents`, C = columns, R = rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from mothtrap.core.errors import StepUnavailableError
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.window import Floats, Ints
from mothtrap.reader.files.commits import ENDLESS
from mothtrap.reader.tensors.captured_tensors import Tensor
from mothtrap.statistics.distribution import EXPONENTS
from mothtrap.statistics.exponents import BINS, LOWEST_POWER, count_exponents
from mothtrap.web.buckets import width_for
from mothtrap.web.cell_scale import FIRST, LAST, Codes
from mothtrap.web.matrix import packed
from mothtrap.web.opened import OpenRun

MOST_MOMENTS = 2000
MOST_VALUES = 50_000_000
"""Maximum number of moments and captured values that are read for a picture; chosen by hand: a
second."""
LEAST_SHARE = 1e-6
"""The low end of the colors."""


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """A row: values of one sign between two powers of two, zeros, or non-finite values.

    `open`: the band also contains all values that are larger (`over`) or smaller (`under`).
    """

    label: str
    sort: str
    power: int = 0
    open: str = ""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The head of an answer, as of `matrix.Head`; `moments` of `of` were counted."""

    begin: int
    width: int
    columns: int
    first: int
    total: int
    bands: list[Band]
    low: float
    high: float
    of: str
    moments: int
    note: str = ""


class Counts(msgspec.Struct):
    """Counts at several moments: in the bins of each sign, zeros, and non-finite values."""

    steps_S: Ints
    bins_S2B: Ints
    zero_S: Floats
    bad_S: Floats
    of: str
    left_out: int

    @property
    def sizes(self) -> Floats:
        """Return the number of values at each moment, at least 1."""
        known_S = self.bins_S2B.sum(axis=(1, 2)) + np.nan_to_num(self.zero_S) + self.bad_S
        sizes_S: Floats = np.maximum(1.0, known_S)
        return sizes_S


def answer(
    opened: OpenRun,
    tensor: Tensor,
    *,
    mode: Mode | None = None,
    worker: int | None = None,
    begin: int = 0,
    end: int = ENDLESS,
    most: int = 1200,
) -> bytes:
    """Return the distribution of a tensor as bytes: see `matrix.packed`.

    It has no bands if neither exponents nor values were captured.
    """
    run = opened.run
    try:
        counts = counted(opened, tensor, mode, worker, begin, end)
    except StepUnavailableError:
        counts = None
    # An evaluation after the last step has the number of the step that would come next.
    steps = max(run.steps, int(counts.steps_S[-1]) + 1 if counts else 0)
    begin, last = max(0, begin), max(begin + 1, min(end, steps))
    width = width_for(begin, last, max(2, min(most, 1200)))
    first = begin // width
    columns = -(-last // width) - first
    bands, share_RS = _shares(counts) if counts else ([], np.empty((0, 0)))
    share_RC = np.full((len(bands), columns), np.nan)
    for moment, step in enumerate(counts.steps_S.tolist() if counts else []):
        column = step // width - first
        share_RC[:, column] = np.fmax(share_RC[:, column], share_RS[:, moment])
    note = ""
    if counts and counts.left_out:
        note = f"{counts.left_out:,} captures between these were not read; zoom in to see them"
    head = Head(
        begin=first * width,
        width=width,
        columns=columns,
        first=0,
        total=len(bands),
        bands=bands,
        low=LEAST_SHARE,
        high=1.0,
        of=counts.of if counts else "",
        moments=len(counts.steps_S) if counts else 0,
        note=note,
    )
    return packed(head, _codes(share_RC))


def counted(
    opened: OpenRun,
    tensor: Tensor,
    mode: Mode | None,
    worker: int | None,
    begin: int = 0,
    end: int = ENDLESS,
    *,
    most_moments: int = MOST_MOMENTS,
    most_values: int = MOST_VALUES,
) -> Counts:
    """Return the counts at some steps, as captured or computed from captured values."""
    keeper, keys = moments(opened, tensor, mode, worker, begin, end)
    is_metric = keeper.kind == "metric"
    size = 1 if is_metric else max(1, int(np.prod(tensor.shape)))
    most = max(1, min(len(keys), most_moments, most_values // size))
    chosen = [keys[place] for place in np.linspace(len(keys) - 1, 0, most).astype(int)[::-1]]
    others = {
        name: _at_steps(tensor, name, mode or chosen[0].mode, worker)
        for name in ("zero", "nan", "inf")
    }
    steps, bins, zeros, bad = [], [], [], []
    for key in chosen:
        values = keeper.at(key, worker=worker, copy=-1)
        steps.append(key.step)
        if is_metric:
            bins.append(values)
            zeros.append(others["zero"].get(key.step, np.nan))
            bad.append(others["nan"].get(key.step, 0.0) + others["inf"].get(key.step, 0.0))
            continue
        bins.append(count_exponents(values))
        zeros.append(float((values == 0).sum()))
        bad.append(float((~np.isfinite(values.astype(np.float64))).sum()))
    return Counts(
        steps_S=np.array(steps, np.int64),
        bins_S2B=np.array(bins, np.int64).reshape(-1, 2, BINS),
        zero_S=np.array(zeros),
        bad_S=np.array(bad),
        of="captured exponents" if is_metric else "captured values",
        left_out=len(keys) - len(chosen),
    )


def moments(
    opened: OpenRun,
    tensor: Tensor,
    mode: Mode | None,
    worker: int | None,
    begin: int = 0,
    end: int = ENDLESS,
) -> tuple[Tensor, Sequence[StepKey]]:
    """Return the tensor with the counts or values, and the moments of its captures.

    Raises:
        StepUnavailableError: neither exponents nor values were captured.
    """
    metric = f"metric:{EXPONENTS}({tensor.identity})"
    parts = opened.run.parts(tensor.workers[0] if worker is None else worker)
    source = opened.run.range(max(0, begin), end)
    is_there = any(part.view.ids(metric) for part in parts)
    keeper = source.tensor(metric if is_there else tensor.identity)
    keys = keeper.raw_keys(mode, worker)
    if not keys:
        raise StepUnavailableError(
            f"neither exponents nor values of {tensor.identity} were captured at these steps"
        )
    return keeper, keys


def _at_steps(tensor: Tensor, statistic: str, mode: Mode, worker: int | None) -> dict[int, float]:
    series = tensor.history(statistic, mode, worker)
    return dict(zip(series.steps_S.tolist(), series.values_S.tolist(), strict=True))


def _shares(counts: Counts) -> tuple[list[Band], Floats]:
    """Return the bands from the largest value to the least, and their shares, shape (R, S)."""
    bins_S2B = counts.bins_S2B
    (held,) = np.nonzero(bins_S2B.sum(axis=(0, 1)))
    powers = range(int(held[0]), int(held[-1]) + 1) if len(held) else range(0)
    bands = [Band(label="not finite", sort="bad")]
    rows = [counts.bad_S]
    for sign in (1, 0):
        if sign == 0:
            bands.append(Band(label="0", sort="zero"))
            rows.append(counts.zero_S)
            if not bins_S2B[:, 0].any():
                break
        for place in powers if sign == 0 else reversed(powers):
            bands.append(_band(place, "positive" if sign else "negative"))
            rows.append(bins_S2B[:, sign, place].astype(np.float64))
    return bands, np.array(rows) / counts.sizes


def _band(place: int, sort: str) -> Band:
    power = place + LOWEST_POWER
    wide = "under" if place == 0 else "over" if place == BINS - 1 else ""
    sign = "−" if sort == "negative" else ""
    label = f"{sign}2^{power}" + {"under": " and closer to 0", "over": " and beyond", "": ""}[wide]
    return Band(label=label, sort=sort, power=power, open=wide)


def _codes(share_RC: Floats) -> Codes:
    """Encode shares as bytes: 0 if nothing was captured, 1 if the share is zero."""
    with np.errstate(divide="ignore"):
        place = 1 - np.log(np.maximum(share_RC, LEAST_SHARE)) / np.log(LEAST_SHARE)
    codes: Codes = np.rint(FIRST + (LAST - FIRST) * np.nan_to_num(place)).astype(np.uint8)
    codes[share_RC == 0] = 1
    codes[np.isnan(share_RC)] = 0
    return codes


def bars(counts: Counts) -> Iterator[tuple[str, str, float]]:
    """Yield the label, kind and share of each band at the last moment."""
    bands, share_RS = _shares(counts)
    for band, share in zip(bands, share_RS[:, -1].tolist(), strict=True):
        yield band.label, band.sort, 0.0 if np.isnan(share) else share
