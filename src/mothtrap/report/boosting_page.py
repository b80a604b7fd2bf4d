"""Boosted models as a part of the HTML report: labels, importance, scores by round, residuals."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from itertools import pairwise

from mothtrap.core.record_items import Curve, Predictions
from mothtrap.report.boosting import BoostedModel, ScoredRound
from mothtrap.report.record_page import predictions_html
from mothtrap.report.style import count_of

MAX_MODELS = 8
MAX_FEATURES = 20
MAX_CLASSES = 20
MAX_CHARACTERS = 200

Cell = str | float


def section(models: Sequence[BoostedModel]) -> str:
    """Render the boosted models of a run as HTML; "" without such models."""
    if not models:
        return ""
    parts = [f"<h2>Boosted models ({len(models)})</h2>"]
    parts += [_model(model) for model in models[:MAX_MODELS]]
    more = len(models) - MAX_MODELS
    return "".join(parts) + (f'<p class="soft">… and {more} more.</p>' if more > 0 else "")


def _model(model: BoostedModel) -> str:
    best = "" if model.best_round is None else f", best after {model.best_round + 1}"
    parts = [
        f'<h3 class="logged">{_safe(model.fit)}</h3>',
        f'<p class="soft">{_safe(model.library)}, {_safe(model.objective)}, '
        f"{count_of(model.rounds, 'round')}{best}</p>",
    ]
    if model.labels:
        parts.append(
            _table("Labels of the training data", list(model.labels), [model.labels.values()])
        )
    if model.importance:
        parts.append(_importance(model))
    for site, every in model.scores.items():
        rounds = [*{one.rounds: one for one in every}.values()]  # the last is reported twice
        parts.append(f'<h3 class="logged">{_safe(site)}</h3>')
        parts += _classes(rounds) if rounds[-1].confusion else _numbers(rounds)
    return "".join(parts)


def _importance(model: BoostedModel) -> str:
    by = "gain" if "gain" in model.importance else next(iter(model.importance))
    largest = sorted(model.importance[by], key=lambda name: -model.importance[by][name])
    rows: list[list[Cell]] = [
        [name, *(values.get(name, 0.0) for values in model.importance.values())]
        for name in largest[:MAX_FEATURES]
    ]
    title = f"Importance, the largest {by} first"
    return _table(title, ["feature", *model.importance], rows)


def _classes(rounds: Sequence[ScoredRound]) -> list[str]:
    """Render the scores of a classifier on one set of data."""
    last = rounds[-1]
    names = [str(number) for number in range(len(last.confusion))]
    roc = [
        Curve(
            label="class 1",
            x=[x for x, _ in last.roc],
            y=[y for _, y in last.roc],
            area=last.auc or 0.0,
        )
    ]
    parts = [
        predictions_html(
            Predictions(
                classes=names,
                confusion=[list(row) for row in last.confusion],
                count=last.rows,
                accuracy=last.accuracy or 0.0,
                roc=roc if last.roc else [],
            )
        )
    ]
    shown = names[:MAX_CLASSES]
    rows: list[list[Cell]] = [
        [name, last.precision[n], last.recall[n], last.f1[n]] for n, name in enumerate(shown)
    ]
    averages = {"macro": last.macro, "weighted": last.weighted}
    rows += [[name, *values.values()] for name, values in averages.items()]
    rows.append(["micro", *(last.accuracy or 0.0,) * 3])
    parts.append(_table("Scores by class", ["class", "precision", "recall", "F1"], rows))
    of_round: list[list[Cell]] = [
        [count_of(one.rounds, "round"), *one.recall[:MAX_CLASSES]] for one in rounds
    ]
    parts.append(_table("Accuracy by class", ["", *shown], of_round))
    return parts


def _numbers(rounds: Sequence[ScoredRound]) -> list[str]:
    """Render the scores of a regression on one set of data."""
    last, parts = rounds[-1], []
    if last.error_per_bin:
        head = ["labels", *(f"{a:.3g} to {b:.3g}" for a, b in pairwise(last.error_edges))]
        of_round: list[list[Cell]] = [
            [count_of(one.rounds, "round"), *one.error_per_bin] for one in rounds
        ]
        parts.append(_table("Mean absolute error by label", head, of_round))
    if last.residuals:
        head = [f"{a:.3g} to {b:.3g}" for a, b in pairwise(last.residual_edges)]
        parts.append(_table("Residuals: rows by label minus prediction", head, [last.residuals]))
    return parts


def _table(title: str, head: Sequence[str], rows: Iterable[Iterable[Cell]]) -> str:
    cells = "".join(f"<th>{_safe(name)}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{_safe(_text(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f'<p class="soft">{_safe(title)}</p><table><tr>{cells}</tr>{body}</table>'


def _text(cell: Cell) -> str:
    if isinstance(cell, str):
        return cell
    return f"{cell:,.0f}" if float(cell).is_integer() and abs(cell) < 1e9 else f"{cell:.4g}"


def _safe(text: str) -> str:
    cut = text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"
    return html.escape("".join(c if c.isprintable() else "\ufffd" for c in cut))
