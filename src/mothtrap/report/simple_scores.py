"""Scores of simple models from a check of the script, next to the score of a run."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from heapq import nlargest
from pathlib import Path

import msgspec

from mothtrap.core.errors import MothtrapError
from mothtrap.core.facts.checks import CheckResult
from mothtrap.core.facts.epochs import EpochMetrics
from mothtrap.core.runs import RunInfo, RunKind
from mothtrap.reader.run import Run, open_run
from mothtrap.store import layout
from mothtrap.store.person_scores import read_score

CODE = "PRE401"
"""The check that fits simple models."""
PERSON = "a person"
"""Name of the score of a person's answers."""
MOST_RUNS = 50
"""Runs, the latest first, among which a check of the same script is searched; chosen by hand."""
OWN_NAMES = {
    "accuracy": re.compile(
        r"(val|valid|validation|eval|test)[_/. -]*((binary|(sparse_)?categorical)_)?acc(uracy)?",
        re.IGNORECASE,
    ),
    "R2": re.compile(r"(val|valid|validation|eval|test)[_/. -]*(r2|r2_score)", re.IGNORECASE),
}
"""Names under which scripts log the scores of an evaluation."""
HELD_OUT = {
    "accuracy": re.compile(r"((binary|(sparse_)?categorical)_)?acc(uracy)?", re.IGNORECASE),
    "R2": re.compile(r"r2|r2_score", re.IGNORECASE),
}
"""Names of metrics that the loop of a framework computes for its evaluation."""


class SimpleScores(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Scores of simple models on the script's evaluation data.

    Attributes:
        check: id of the run of `mothtrap check` that measured them.
        metric: `accuracy` or `R2`.
        scores: scores by model.
        rows: number of evaluation rows.
        own: best score of the run itself; None if it reports no score.
        own_name: name of the run's own metric.
    """

    check: str
    metric: str
    scores: dict[str, float]
    rows: int = 0
    own: float | None = None
    own_name: str = ""


def simple_scores(run: Run) -> SimpleScores | None:
    """Return the scores from the latest check of the same script; None without simple scores."""
    if run.kind is not RunKind.TRAIN or run.info is None:
        return None
    script = _script(run.info)
    checks = [info for info in _recent(run.path.parent) if script and _script(info) == script]
    for info in sorted(checks, key=lambda info: -info.created_s):
        with suppress(MothtrapError, OSError):
            if found := _scores(open_run(run.path.parent / info.id)):
                return _with_own(found, run)
    return None


def scores_in_words(found: SimpleScores) -> str:
    """Return the comparison as one sentence without a period."""
    others = [f"{name} {score:.3f}" for name, score in found.scores.items()]
    if found.own is None:
        return f"simple models have {found.metric} {', '.join(others)} (check {found.check})"
    best = max(found.scores, key=lambda name: found.scores[name])
    named = {"linear": "a linear model", "dummy": "a constant guess"}.get(best, best)
    return (
        f"{found.own_name} {found.own:.3f}; {named} has {found.scores[best]:.3f} "
        f"(check {found.check})"
    )


def _recent(runs_dir: Path) -> Iterator[RunInfo]:
    """Yield the checks among the latest runs of a folder."""
    with suppress(OSError), os.scandir(runs_dir) as entries:
        folders = [(entry.stat().st_mtime, entry.path) for entry in entries if entry.is_dir()]
        for _, folder in nlargest(MOST_RUNS, folders):
            with suppress(MothtrapError, OSError):
                info = layout.read_info(layout.attempt_folder(Path(folder), layout.FIRST_ATTEMPT))
                if info is not None and info.kind is RunKind.CHECK:
                    yield info


def _script(info: RunInfo) -> tuple[str, ...]:
    """Return the script: its path, or the words after `-m`; empty if unknown."""
    words = info.command
    scripts = [word for word in words if word.endswith(".py")]
    if scripts:
        return (os.path.join(info.cwd, scripts[0]),)
    return (info.cwd, words[words.index("-m") + 1]) if "-m" in words[:-1] else ()


def _scores(check: Run) -> SimpleScores | None:
    results: Sequence[CheckResult] = check.observations(CheckResult)
    figures = next((one.figures for one in results if one.code == CODE), {})
    for metric in OWN_NAMES:
        suffix = f" {metric}"
        scores = {k.removesuffix(suffix): v for k, v in figures.items() if k.endswith(suffix)}
        if scores:
            person = read_score(check.path)
            if person is not None and person.metric == metric:
                scores[PERSON] = person.score
            rows = int(figures.get("rows of evaluation", 0))
            return SimpleScores(check=check.id, metric=metric, scores=scores, rows=rows)
    return None


def _with_own(found: SimpleScores, run: Run) -> SimpleScores:
    """Add the best score of the run, from the metrics of its epochs or its logged metrics."""
    values = [
        (value, f"val_{name}")
        for epoch in run.observations(EpochMetrics)
        for name, value in epoch.held_out.items()
        if HELD_OUT[found.metric].fullmatch(name)
    ]
    if not values:
        logged = [one for one in run.scalars() if OWN_NAMES[found.metric].fullmatch(one.name)]
        values = [(float(value), one.name) for one in logged for value in one.values_S]
    values = [(value, name) for value, name in values if not math.isnan(value)]
    if not values or max(values)[0] > 1:  # logged in percent
        return found
    own, name = max(values)
    return msgspec.structs.replace(found, own=own, own_name=name)
