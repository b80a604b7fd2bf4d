"""Exponents of one tensor at a step: captured, or counted from stored values."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mothtrap.core.errors import StepNotYetError, StepUnavailableError
from mothtrap.core.steps import StepKey
from mothtrap.reader.files.commits import ModeName
from mothtrap.reader.files.parts import Part
from mothtrap.reader.series.merged import workers_of_whole
from mothtrap.reader.tensors.exponent_counts import Exponents, total
from mothtrap.reader.tensors.kept import counts_of, load, summary_of
from mothtrap.reader.tensors.located import Located
from mothtrap.statistics.distribution import EXPONENTS


def exponents_of_one(
    where: Located, step: int | StepKey, mode: ModeName | None, worker: int | None
) -> Exponents:
    """Return the exponents captured by one worker; see `Tensor.exponents`."""
    return _counted(where, step, mode, worker)[1]


def exponents_of_all(where: Located, step: int | StepKey, mode: ModeName | None) -> Exponents:
    """Add up the exponents of all workers' parts; see `Tensor.exponents`."""
    found: dict[int, tuple[Part, Exponents]] = {}
    for rank in where.workers:
        try:
            found[rank] = _counted(where, step, mode, rank)
        except StepNotYetError:
            raise
        except StepUnavailableError as err:
            lacking = err
    if not found:
        raise lacking
    attempt = max(part.attempt for part, _ in found.values())
    holders = [
        rank
        for rank in where.workers
        if any(ids and part.attempt == attempt for part, ids in where.parts(rank))
    ]
    infos = {r: p.view.tensors[p.view.ids(where.identity)[0]] for r, (p, _) in found.items()}
    whole = workers_of_whole(infos, holders)
    if not whole:
        raise StepUnavailableError(
            f"the exponents of {where.identity} at this step cannot be merged: of workers "
            f"{holders} only {sorted(found)} captured them, or its scope cannot be merged; read "
            "one worker with worker="
        )
    return total([found[rank][1] for rank in whole])


def _counted(
    where: Located, step: int | StepKey, mode: ModeName | None, worker: int | None
) -> tuple[Part, Exponents]:
    row: npt.NDArray[np.float64] | None
    captured = Located(where.span, f"metric:{EXPONENTS}({where.identity})", where.workers)
    try:
        places = captured.find(step, mode, worker)
    except StepUnavailableError as err:
        if isinstance(err, StepNotYetError) or captured.raw_keys(mode, worker):
            raise
        if not where.raw_keys(mode, worker):
            raise StepUnavailableError(
                f"no exponents of {where.identity} were captured; capture them with a collection "
                'that has statistics = ["exponents"]'
            ) from err
        places = where.find(step, mode, worker)
        counts_2B, row = counts_of(places), summary_of(places, ("zero", "nan"))
        part, commit, _, _ = places[0]
    else:
        counts_2B = np.sum([load(*place) for place in places], axis=0)
        part, commit, _, _ = places[0]
        row = where.summary(part, commit)
    number = part.view.commits.key(commit).step
    return part, Exponents.of_row(where.identity, number, counts_2B, row)
