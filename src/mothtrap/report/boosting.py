"""Boosted models of a run in numbers: labels, importance, scores by round, as data and as text."""

from __future__ import annotations

import msgspec
import numpy as np

from mothtrap.core.facts.trees import (
    BoostingBegan,
    BoostingEnded,
    FeatureImportance,
    ScoresSeen,
    TableSeen,
)
from mothtrap.reader.run import Run
from mothtrap.report.style import Style, count_of

SHOWN = 5
"""Features and classes in a line."""


class ScoredRound(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Predictions for one set of data after a number of rounds; fields as in `ScoresSeen`."""

    rounds: int
    rows: int
    accuracy: float | None = None
    auc: float | None = None
    precision: tuple[float, ...] = ()
    recall: tuple[float, ...] = ()
    f1: tuple[float, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()
    roc: tuple[tuple[float, float], ...] = ()
    error_edges: tuple[float, ...] = ()
    error_per_bin: tuple[float, ...] = ()
    residual_edges: tuple[float, ...] = ()
    residuals: tuple[int, ...] = ()
    macro: dict[str, float] = {}
    weighted: dict[str, float] = {}


class BoostedModel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A boosted model of a run.

    `labels` counts the training rows by class, or contains mean, spread and range of numbers.
    `importance` contains the values of features by kind of importance; `scores` are by name of the
    data, latest round last.
    """

    fit: str
    library: str
    objective: str
    rounds: int
    best_round: int | None = None
    labels: dict[str, float] = {}
    importance: dict[str, dict[str, float]] = {}
    scores: dict[str, tuple[ScoredRound, ...]] = {}


def boosted_models(run: Run) -> tuple[BoostedModel, ...]:
    """Return the boosted models of a run, in order of creation."""
    ended = {one.fit: one for one in run.observations(BoostingEnded)}
    tables = {one.fit: one for one in run.observations(TableSeen) if not one.site}
    scored = run.observations(ScoresSeen)
    importance: dict[str, dict[str, dict[str, float]]] = {}
    for one in run.observations(FeatureImportance):
        importance.setdefault(one.fit, {})[one.kind] = one.values
    found = []
    for began in run.observations(BoostingBegan):
        end, own = ended.get(began.fit), [one for one in scored if one.fit == began.fit]
        found.append(
            BoostedModel(
                fit=began.fit,
                library=began.library,
                objective=began.objective,
                rounds=end.rounds if end is not None else 0,
                best_round=end.best_round if end is not None else None,
                labels=_labels(tables.get(began.fit)),
                importance=importance.get(began.fit, {}),
                scores={
                    site: tuple(_round(one) for one in own if one.site == site)
                    for site in dict.fromkeys(one.site for one in own)
                },
            )
        )
    return tuple(found)


def boosting_lines(models: tuple[BoostedModel, ...], style: Style) -> list[str]:
    """Return the latest scores and the most important features of each model, as lines."""
    lines: list[str] = []
    for model in models:
        best = "" if model.best_round is None else f", best after {model.best_round + 1}"
        lines.append(f"  {style.safe(model.fit)}: {count_of(model.rounds, 'round')}{best}")
        for kind, values in model.importance.items():
            largest = sorted(values.items(), key=lambda item: -item[1])[:SHOWN]
            text = ", ".join(f"{style.safe(name)} {value:.3g}" for name, value in largest)
            lines.append(f"    importance ({kind}): {text}")
        for site, rounds in model.scores.items():
            lines.append(f"    {style.safe(site)}: {_in_words(rounds[-1])}")
    return lines


def _in_words(one: ScoredRound) -> str:
    if one.error_per_bin:
        low, high = one.error_edges[0], one.error_edges[-1]
        errors = " ".join(f"{value:.3g}" for value in one.error_per_bin)
        return f"mean absolute error by label from {low:.3g} to {high:.3g}: {errors}"
    words = [f"accuracy {one.accuracy:.3f}"] if one.accuracy is not None else []
    words += [f"auc {one.auc:.3f}"] if one.auc is not None else []
    words += [f"{name} {value:.3f}" for name, value in one.macro.items()]
    if len(one.confusion) <= SHOWN:
        words.append("confusion " + " / ".join(" ".join(map(str, row)) for row in one.confusion))
    return ", ".join(words)


def _round(one: ScoresSeen) -> ScoredRound:
    fields = {name: getattr(one, name) for name in ScoredRound.__struct_fields__[:-2]}
    macro: dict[str, float] = {}
    weighted: dict[str, float] = {}
    if one.confusion:
        rows_K = np.array([sum(row) for row in one.confusion])
        for name in ("precision", "recall", "f1"):
            of_K = np.array(getattr(one, name))
            macro[name] = float(of_K[rows_K > 0].mean())
            weighted[name] = float((of_K * rows_K).sum() / rows_K.sum())
    return ScoredRound(**fields, macro=macro, weighted=weighted)


def _labels(table: TableSeen | None) -> dict[str, float]:
    if table is None:
        return {}
    if table.label_counts is not None:
        return {str(label): count for label, count in enumerate(table.label_counts)}
    known = {"mean": table.label_mean, "std": table.label_std}
    known |= {"min": table.label_min, "max": table.label_max}
    return {name: value for name, value in known.items() if value is not None}
