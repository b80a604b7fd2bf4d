"""Answers about several runs: the first divergence, different findings, ratios of layers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from mothtrap.core.findings import Finding
from mothtrap.reader.run import Run, open_run
from mothtrap.report.difference import RunDifference, difference
from mothtrap.web.cell_scale import scaled
from mothtrap.web.code_differences import CodeDifference, code_differences
from mothtrap.web.grids import Grid, grid, ratio
from mothtrap.web.matrix import Shown, Wanted, matching, packed, rows_shown
from mothtrap.web.module_tree import rows_of, tree
from mothtrap.web.opened import OpenRuns
from mothtrap.web.row_reading import parameter_texts

MOST_RUNS = 5
MOST_KEPT = 20


class Only(msgspec.Struct, frozen=True, kw_only=True):
    """A finding, and the names of the compared runs that have it."""

    code: str
    name: str
    severity: str
    layers: tuple[str, ...]
    steps: dict[str, int]
    fingerprints: dict[str, str]


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """Several runs compared with the first of them.

    `parameters` contains the parameters that differ between runs, by name and run. `metrics` are
    the last values of losses and metrics, by name and run. `code` has the differences in the script
    of each other run, None if a script is not stored. `findings` contains the findings that not all
    runs have.
    """

    runs: list[str]
    differences: list[RunDifference]
    parameters: dict[str, dict[str, str]]
    metrics: dict[str, dict[str, float]]
    code: list[tuple[CodeDifference, ...] | None]
    findings: list[Only]
    shared: int


_kept: OrderedDict[tuple[tuple[Path, str], ...], Compared] = OrderedDict()


def compared(paths: Sequence[Path], names: Sequence[str]) -> Compared:
    """Return the differences between runs.

    Args:
        paths: paths of the runs; others are compared with the first.
        names: names of the runs on the page.
    """
    runs = [open_run(path) for path in paths[:MOST_RUNS]]
    key = tuple((run.path, run.cursor) for run in runs)
    if key not in _kept:
        _kept[key] = _compared(runs, names[:MOST_RUNS])
        while len(_kept) > MOST_KEPT:
            _kept.popitem(last=False)
    return _kept[key]


def _compared(runs: Sequence[Run], names: Sequence[str]) -> Compared:
    options = {name: parameter_texts(run) for name, run in zip(names, runs, strict=True)}
    every = dict.fromkeys(option for each in options.values() for option in each)
    differing = {
        option: {name: each.get(option, "") for name, each in options.items()}
        for option in every
        if len({each.get(option) for each in options.values()}) > 1
    }
    by_cause: dict[tuple[Any, ...], dict[str, Finding]] = {}
    for name, run in zip(names, runs, strict=True):
        for finding in run.findings:
            by_cause.setdefault((finding.code, finding.layers[:1]), {}).setdefault(name, finding)
    only = [_only(found) for found in by_cause.values() if len(found) < len(runs)]
    texts = [run.source_texts() for run in runs]
    return Compared(
        runs=list(names),
        differences=[difference(runs[0], other) for other in runs[1:]],
        parameters=differing,
        metrics=_metrics(runs, names),
        code=[code_differences(texts[0], other) for other in texts[1:]],
        findings=only,
        shared=len(by_cause) - len(only),
    )


def _metrics(runs: Sequence[Run], names: Sequence[str]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for run, called in zip(runs, names, strict=True):
        for metric, value in run.metrics.items():
            found.setdefault(metric, {})[called] = value
    return found


def _only(found: dict[str, Finding]) -> Only:
    first = next(iter(found.values()))
    return Only(
        code=first.code,
        name=first.name,
        severity=first.severity.value,
        layers=first.layers[:3],
        steps={name: finding.step for name, finding in found.items()},
        fingerprints={name: finding.fingerprint for name, finding in found.items()},
    )


def ratios(
    opened: OpenRuns, paths: Sequence[Path], wanted: Wanted, first: int, most_rows: int
) -> bytes:
    """Return a heatmap of a statistic in one run divided by another: see `matrix.packed`.

    Args:
        opened: the runs.
        paths: paths of two runs.
        wanted: the heatmap; its scale is ignored.
        first: first wanted row.
        most_rows: maximum number of rows.
    """
    names: list[list[str]] = []
    ends: list[int] = []
    for path in paths:
        with opened.at(path) as each:
            names.append(matching(each, wanted.kind, wanted.query))
            ends.append(each.run.steps)
    others = set(names[1])
    root, both = tree([name for name in names[0] if name in others])
    identities = [f"{wanted.kind}:{name}" for name in both]
    end = min(wanted.end, *ends)
    grids: list[Grid] = []
    for path in paths:
        with opened.at(path) as each:
            grids.append(
                grid(
                    each,
                    identities,
                    wanted.statistic,
                    mode=wanted.mode,
                    worker=wanted.worker,
                    begin=wanted.begin,
                    end=end,
                    most=wanted.most,
                )
            )
    cells = ratio(*grids)
    rows = rows_of(root, wanted.opened, wanted.closed)
    found = Shown(cells, both, rows, scaled(cells.furthest, "ratio"))
    return packed(*rows_shown(found, first, most_rows))
