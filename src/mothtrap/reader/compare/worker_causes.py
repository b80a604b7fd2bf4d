"""Likely cause of a difference between one process and many ranks on the same batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mothtrap.core.facts.replicas import BatchRows
from mothtrap.core.steps import Mode
from mothtrap.reader.run import Run
from mothtrap.reader.series.merged import MERGED

SAME_FACTOR = 0.05
"""Relative difference up to which gradients count as scaled by one factor. Chosen by hand: far
above 16-bit rounding after averaging over a tensor, and far below a factor of 2.
"""
SMALL = 1e-3
"""Share of the largest gradient norm below which a gradient may be rounding alone; chosen by
hand."""


@dataclass(frozen=True, slots=True)
class WorkerCause:
    """A likely cause in one sentence, with its evidence."""

    sentence: str
    evidence: tuple[str, ...] = ()


def worker_cause(one: Run, many: Run, step: int, differing: frozenset[str]) -> WorkerCause | None:
    """Explain a difference in losses or gradients between one process and several ranks.

    Args:
        one: the run with one process.
        many: the run with several ranks.
        step: step of the first difference.
        differing: identities of the tensors whose gradients differ there; empty if unknown.

    Returns:
        None if the gradients at the step are unknown, or show no known cause.
    """
    factors = _factors(one, many, step)
    rows = rows_at(many, step)
    if len(set(rows.values())) > 1:
        told = ", ".join(f"{count} on rank {worker}" for worker, count in sorted(rows.items()))
        return WorkerCause(
            "the ranks have batches of different sizes in this step, and the average over "
            "ranks gives the rows of a small batch more weight than the rows of a large batch",
            (f"rows: {told}",),
        )
    if not factors:
        return None
    return (
        _clipped_apart(many, step)
        or _one_factor(factors, len(many.workers))
        or _some_modules(factors, differing)
    )


def rows_at(run: Run, step: int) -> dict[int, int]:
    """Return the rows of each rank's batch at a step, as far as they are known."""
    told = sorted(run.observations(BatchRows), key=lambda seen: seen.step)
    return {seen.rank: seen.rows for seen in told if seen.step <= step}


def _factors(one: Run, many: Run, step: int) -> dict[str, float]:
    """Return the factor of each tensor's gradient norm in the run with many ranks."""
    norms: list[dict[str, float]] = []
    for run in (one, many):
        matrix = run.range(step, step + 1).stats(
            "gradient", statistics=("l2",), mode=Mode.TRAIN, worker=MERGED
        )["l2"]
        row = matrix.values_ST[0].tolist() if len(matrix) else []
        norms.append(
            {
                tensor.identity: value
                for tensor, value in zip(matrix.tensors, row, strict=False)
                if np.isfinite(value)
            }
        )
    first, second = norms
    least = SMALL * max(first.values(), default=0.0)
    return {
        name: second[name] / value
        for name, value in first.items()
        if name in second and value > least
    }


def _one_factor(factors: dict[str, float], workers: int) -> WorkerCause | None:
    values = np.array(list(factors.values()))
    factor = float(np.median(values))
    if factor <= 0 or abs(factor - 1) <= SAME_FACTOR:
        return None
    if np.max(np.abs(values / factor - 1)) > SAME_FACTOR:
        return None
    known = f"the gradients of all {len(factors)} tensors are {factor:.3g} times as large"
    if abs(factor / workers - 1) <= SAME_FACTOR:
        sentence = (
            f"the gradients are multiplied by the number of ranks ({workers}): they are summed "
            "instead of averaged, or the loss is multiplied by this number"
        )
    elif abs(factor * workers - 1) <= SAME_FACTOR:
        sentence = (
            f"the gradients are divided by the number of ranks ({workers}) once too often, as "
            "when the script divides gradients that the wrapper has averaged"
        )
    else:
        sentence = f"all gradients are scaled by {factor:.3g}"
    return WorkerCause(sentence, (known,))


def _clipped_apart(many: Run, step: int) -> WorkerCause | None:
    """Report that each rank clips its own gradients before they are averaged."""
    limits = many.scalars("clip_limit", mode=Mode.TRAIN)
    norms = {
        worker: float(series.values_S[series.steps_S == step][0])
        for worker in many.workers
        for series in many.scalars("gradient_norm", mode=Mode.TRAIN, worker=worker)[:1]
        if (series.steps_S == step).any()
    }
    values = list(norms.values())
    if not limits or len(values) < 2 or np.ptp(values) <= SAME_FACTOR * SMALL * max(values):
        return None
    told = ", ".join(f"{value:.4g} on rank {worker}" for worker, value in norms.items())
    return WorkerCause(
        "each rank clips its own gradients before they are averaged: clip after the average",
        (f"gradient norms when clipped: {told}",),
    )


def _some_modules(factors: dict[str, float], differing: frozenset[str]) -> WorkerCause | None:
    named = [name for name in factors if name in differing]
    if not named or len(named) == len(factors):
        return None
    first = named[0].partition(":")[2]
    return WorkerCause(
        f"the gradient of {first} differs, and {len(factors) - len(named)} of {len(factors)} "
        "gradients agree: it is not averaged over the ranks, or it is computed from other values",
        tuple(f"{name} is {factors[name]:.3g} times as large" for name in named[:4]),
    )
