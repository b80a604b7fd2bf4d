"""Metrics of epochs made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mothtrap.core.facts.epochs import EpochMetrics
from mothtrap.core.metrics import sense_by_name

STEPS = 10
"""Steps of an epoch."""


def epochs(
    values: Mapping[str, Sequence[float]],
    held_out: Mapping[str, Sequence[float]] | None = None,
    *,
    higher_is_better: tuple[str, ...] | None = None,
    weighted: bool = False,
    fit: str = "fit train.py:9",
) -> list[EpochMetrics]:
    """The metrics of each epoch, of training and held-out data; names define their directions."""
    other = held_out or {}
    rising = {name: sense_by_name(name) for name in {*values, *other}}
    higher = tuple(name for name in rising if rising[name])
    count = max((len(each) for each in values.values()), default=0)
    return [
        EpochMetrics(
            step=STEPS * (epoch + 1),
            fit=fit,
            epoch=epoch,
            loss="loss" if "loss" in values else None,
            values={name: float(v[epoch]) for name, v in values.items() if epoch < len(v)},
            held_out={name: float(v[epoch]) for name, v in other.items() if epoch < len(v)},
            higher_is_better=higher if higher_is_better is None else higher_is_better,
            lower_is_better=tuple(name for name in rising if rising[name] is False),
            weighted=weighted,
            location="train.py:9",
        )
        for epoch in range(count)
    ]
