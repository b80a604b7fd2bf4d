"""Curves of a run: their names, and their numbers as bytes.

A curve has a name that reads like a path: `train/loss`, `train/lr:Adam`, or with a tensor
`train/gradient.l2/blocks.0.weight`. Shape suffixes: N = rows, B = buckets.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from mothtrap.core.errors import ConfigError, UnknownNameError, nearest
from mothtrap.core.facts.evaluations import Evaluation
from mothtrap.core.measured import DIGESTS
from mothtrap.core.steps import Mode
from mothtrap.core.window import Floats, Ints
from mothtrap.reader.files.commits import ENDLESS
from mothtrap.reader.files.parts import Part
from mothtrap.reader.files.worker_view import ScalarName, WorkerView
from mothtrap.reader.run import Run
from mothtrap.reader.series.step_values import evaluation_losses
from mothtrap.reader.series.unwatched import with_unwatched
from mothtrap.statistics.summary import STATISTICS
from mothtrap.web.axes import Axis, axis_of
from mothtrap.web.buckets import Buckets, Bytes, bad_bits, joined
from mothtrap.web.derived_curves import ALL, FACT, fact_rows, joint_rows
from mothtrap.web.machine_curves import PREFIX, machine_rows
from mothtrap.web.opened import OpenRun, known_worker

MOST_BUCKETS = 4096
"""Maximum number of buckets of a curve in an answer; chosen by hand: more than a screen has
pixels."""
MOST_EXACT_ROWS = 4_000_000
"""Maximum number of rows of statistics that are read for a zoom; chosen by hand: about a second."""


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """Description of a curve in the head of an answer.

    `width` is the number of steps in a bucket, `rows` the number of merged values (-1 = unknown).
    `note` is the reason if it is coarser than requested; `parameters` are the parameters of the
    run, if a curve represents a run.
    """

    name: str
    count: int
    width: int
    rows: int = -1
    location: str | None = None
    note: str = ""
    parameters: dict[str, str] = {}


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The head of an answer: `begin` and `end` are the steps of the run, `axis` the unit of x."""

    begin: int
    end: int
    axis: str
    curves: list[Curve]


def curve_name(mode: str, name: str, of: str = "") -> str:
    """Return the name of a scalar's curve."""
    return f"{mode}/{name}:{of}" if of else f"{mode}/{name}"


def tensor_curve_name(kind: str, statistic: str, tensor: str, mode: str = Mode.TRAIN) -> str:
    """Return the name of the curve of a statistic of a tensor."""
    return f"{mode}/{kind}.{statistic}/{tensor}"


def scalar_names(run: Run) -> dict[str, ScalarName]:
    """Return the numeric scalars of a run, by name of their curve."""
    found: dict[str, ScalarName] = {}
    for view in _views(run, None):
        for scalar in view.scalars():
            if scalar[0] not in DIGESTS:
                found.setdefault(curve_name(scalar[2].value, scalar[0], scalar[1]), scalar)
    return found


def answer(
    opened: OpenRun,
    names: Sequence[str],
    *,
    begin: int = 0,
    end: int = ENDLESS,
    most: int = 1200,
    axis: str = "step",
    worker: int | None = None,
) -> bytes:
    """Return curves as bytes: see `packed`.

    Args:
        opened: the run.
        names: names of the curves.
        begin: first step.
        end: number after the last step.
        most: maximum number of buckets per curve.
        axis: unit of x, see `web.axes`.
        worker: rank; None means the lowest.

    Raises:
        UnknownNameError: there is no such curve, axis or worker; the message suggests one.
    """
    run = opened.run
    worker = known_worker(run, worker)
    most = max(2, min(most, MOST_BUCKETS))
    x_of = axis_of(run, axis, worker)
    scalars = scalar_names(run)
    curves, found = [], []
    for name in names:
        if name in scalars:
            buckets, curve = _scalar(run, name, scalars[name], begin, end, most, worker)
        elif name.startswith((FACT, PREFIX)) or name.endswith(f"/{ALL}"):
            buckets, curve = _derived(opened, name, begin, end, most, worker)
        else:
            buckets, curve = _statistic(opened, name, names, begin, end, most, worker)
        curves.append(curve)
        found.append(buckets)
    head = Head(begin=begin, end=min(end, run.steps), axis=axis, curves=curves)
    return packed(head, found, x_of)


def packed(head: Head, found: Sequence[Buckets], x_of: Axis) -> bytes:
    """Return buckets as bytes.

    Little-endian: the length of the head (uint32), the head as JSON, spaces up to a multiple of 8,
    then for each curve float64 x and step, float32 minimum, maximum and last, uint8 bits of values
    that are not finite, zeros up to a multiple of 8.
    """
    text = msgspec.json.encode(head)
    text += b" " * (-(4 + len(text)) % 8)
    parts = [len(text).to_bytes(4, "little"), text]
    for buckets in found:
        body = x_of(buckets.step_B).astype("<f8").tobytes()
        body += buckets.step_B.astype("<f8").tobytes()
        for value_B in (buckets.min_B, buckets.max_B, buckets.last_B):
            body += narrowed(value_B).tobytes()
        body += buckets.bad_B.astype("u1").tobytes()
        parts += [body, b"\0" * (-len(body) % 8)]
    return b"".join(parts)


def narrowed(value_B: Floats) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Convert numbers to float32, clipping those out of range so that they stay finite."""
    largest = float(np.finfo(np.float32).max)
    return np.clip(value_B, -largest, largest).astype("<f4")


def every_row(opened: OpenRun, name: str) -> tuple[Ints, Floats]:
    """Return steps and values of a curve of the lowest rank, without aggregation, shape (N,).

    Raises:
        UnknownNameError: there is no such curve.
        ConfigError: the run has too many rows of statistics to read each.
    """
    run, worker = opened.run, known_worker(opened.run, None)
    scalars = scalar_names(run)
    if name in scalars:
        step_N, value_N, _ = _scalar_rows(run, scalars[name], 0, ENDLESS, worker)
        return step_N, value_N
    mode, kind, statistic, tensor = tensor_parts(run, name)
    identity = f"{kind}:{tensor}"
    parts = [part for part in run.parts(worker) if part.view.ids(identity)]
    if (rows := sum(map(_rows_of, parts))) > MOST_EXACT_ROWS:
        raise ConfigError(
            f"the run has {rows:,} rows of statistics, more than the {MOST_EXACT_ROWS:,} that the "
            "page reads at once; `mothtrap condition` reads them all"
        )
    rows_N = _exact(opened, parts, identity, [identity], statistic, mode, 0, ENDLESS)
    return rows_N[0], rows_N[1]


def _scalar(
    run: Run, name: str, scalar: ScalarName, begin: int, end: int, most: int, worker: int
) -> tuple[Buckets, Curve]:
    step_N, value_N, location = _scalar_rows(run, scalar, begin, end, worker)
    known = None
    if scalar[0] == "loss" and scalar[2] is Mode.EVAL:
        known = evaluation_losses(run.observations(Evaluation), scalar[1])
    buckets = joined(step_N, value_N, bad_bits(value_N), most, known)
    return buckets, _curve(name, buckets, rows=len(step_N), location=location)


def _scalar_rows(
    run: Run, scalar: ScalarName, begin: int, end: int, worker: int
) -> tuple[Ints, Floats, str | None]:
    """Steps, values, and the scalar's place in the script."""
    steps, values = [np.empty(0, np.int64)], [np.empty(0)]
    location = None
    for part in run.parts(worker):
        column = part.view.scalars().get(scalar)
        if column is None:
            continue
        commit_N = column.commits.view()
        step_N = part.view.commits.steps[commit_N]
        counts_N = part.counts(commit_N)
        step_N, value_N = with_unwatched(
            part, scalar, step_N[counts_N], column.values.view()[counts_N]
        )
        keep_N = (step_N >= begin) & (step_N < end)
        steps.append(step_N[keep_N])
        values.append(value_N[keep_N])
        about = part.view.loss_series.get(scalar[1]) if scalar[0] == "loss" else None
        location = about.location if about else location
    return np.concatenate(steps), np.concatenate(values), location


def _derived(
    opened: OpenRun, name: str, begin: int, end: int, most: int, worker: int
) -> tuple[Buckets, Curve]:
    """Return the curve of a fact, of the machine, or of the norm over all tensors of a kind."""
    if name.startswith((FACT, PREFIX)):
        is_fact = name.startswith(FACT)
        step_N, value_N = fact_rows(opened.run, name) if is_fact else machine_rows(opened, name)
        bad_N = bad_bits(value_N)
    else:
        mode, kind, statistic, _ = _split(opened.run, name)
        step_N, value_N, bad_N = joint_rows(opened, mode, kind, statistic, worker)
    keep_N = (step_N >= begin) & (step_N < end)
    buckets = joined(step_N[keep_N], value_N[keep_N], bad_N[keep_N], most)
    return buckets, _curve(name, buckets, rows=int(keep_N.sum()), location=None)


def _statistic(
    opened: OpenRun,
    name: str,
    names: Sequence[str],
    begin: int,
    end: int,
    most: int,
    worker: int,
) -> tuple[Buckets, Curve]:
    mode, kind, statistic, tensor = tensor_parts(opened.run, name)
    identity = f"{kind}:{tensor}"
    parts = [part for part in opened.run.parts(worker) if part.view.ids(identity)]
    location = opened.run.tensor(identity).info.location
    whole = begin == 0 and end >= opened.run.steps
    if not whole and sum(_rows_of(part) for part in parts) <= MOST_EXACT_ROWS:
        prefix = name.removesuffix(tensor)
        together = [each.removeprefix(prefix) for each in names if each.startswith(prefix)]
        identities = [f"{kind}:{each}" for each in together]
        rows = _exact(opened, parts, identity, identities, statistic, mode, begin, end)
        exact = joined(*rows, most)
        return exact, _curve(name, exact, rows=len(rows[0]), location=location)
    overviews = [_overview(opened, part, identity, statistic, mode) for part in parts]
    coarse = _cut(overviews, begin, end)
    note = ""
    if not whole and coarse.width > 1:
        note = f"1 point covers {coarse.width} steps: the run is too large to read every step"
    return coarse, _curve(name, coarse, location=location, note=note)


def _curve(
    name: str, buckets: Buckets, *, rows: int = -1, location: str | None, note: str = ""
) -> Curve:
    return Curve(
        name=name,
        count=len(buckets.step_B),
        width=buckets.width,
        rows=rows,
        location=location,
        note=note,
    )


def tensor_parts(run: Run, name: str) -> tuple[Mode, str, str, str]:
    """Parse a curve's name into mode, kind, statistic and tensor.

    Raises:
        UnknownNameError: there is no such curve; the message suggests one.
    """
    mode, kind, statistic, tensor = _split(run, name)
    run.tensor(f"{kind}:{tensor}")  # if there is none, it names the nearest
    return mode, kind, statistic, tensor


def _split(run: Run, name: str) -> tuple[Mode, str, str, str]:
    mode, _, rest = name.partition("/")
    what, _, tensor = rest.partition("/")
    kind, _, statistic = what.rpartition(".")
    if not tensor or statistic not in STATISTICS or mode not in tuple(Mode):
        known = list(scalar_names(run))
        raise UnknownNameError(f"there is no curve {name!r} in {run.id}{nearest(name, known)}")
    return Mode(mode), kind, statistic, tensor


def _overview(
    opened: OpenRun, part: Part, identity: str, statistic: str, mode: Mode
) -> list[Buckets]:
    overview = opened.overview(part.view, statistic, mode)
    before = part.redone.train if mode == Mode.TRAIN else part.redone.others
    return [overview.buckets(number, before) for number in part.view.ids(identity)]


def _cut(overviews: Sequence[Sequence[Buckets]], begin: int, end: int) -> Buckets:
    """Return the buckets of the requested steps, one attempt after the other."""
    every = [buckets for each in overviews for buckets in each]
    width = max((buckets.width for buckets in every), default=1)
    step = np.concatenate([np.empty(0, np.int64), *(each.step_B for each in every)])
    low = np.concatenate([np.empty(0), *(each.min_B for each in every)])
    high = np.concatenate([np.empty(0), *(each.max_B for each in every)])
    last = np.concatenate([np.empty(0), *(each.last_B for each in every)])
    bad = np.concatenate([np.empty(0, np.uint8), *(each.bad_B for each in every)])
    keep = np.flatnonzero((step + width > begin) & (step < end))
    keep = keep[np.argsort(step[keep], kind="stable")]
    return Buckets(step[keep], low[keep], high[keep], last[keep], bad[keep], width)


def _rows_of(part: Part) -> int:
    return int(part.view.commits.promised("tensors").sum())


def _exact(
    opened: OpenRun,
    parts: Sequence[Part],
    identity: str,
    together: Sequence[str],
    statistic: str,
    mode: Mode,
    begin: int,
    end: int,
) -> tuple[Ints, Floats, Bytes]:
    """Return every row of a tensor, and read the rows of other tensors in the same pass."""
    found: list[tuple[Ints, Floats, Bytes]] = [
        (np.empty(0, np.int64), np.empty(0), np.empty(0, np.uint8))
    ]
    for part in parts:
        stop = part.redone.train if mode == Mode.TRAIN else part.redone.others
        ids = frozenset(number for each in together for number in part.view.ids(each))
        exact = opened.exact(part.view, ids, statistic, mode)
        for number in part.view.ids(identity):
            found.append(exact.rows(number, begin, min(end, stop)))
    step_N, value_N, bad_N = (np.concatenate(c) for c in zip(*found, strict=True))
    return step_N, value_N, bad_N


def _views(run: Run, worker: int | None) -> list[WorkerView]:
    return [part.view for part in run.parts(known_worker(run, worker))] if run.workers else []
