"""The record of a run in one object."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from mothtrap.core.errors import DamagedDataError
from mothtrap.core.facts.data import LoaderBegan
from mothtrap.core.facts.evaluations import Evaluation
from mothtrap.core.facts.record import ItemLogged, ParametersLogged
from mothtrap.core.facts.samples import DataSeen
from mothtrap.core.facts.trainers import TrainerSettings
from mothtrap.core.facts.trees import BoostingBegan, TableSeen
from mothtrap.core.facts.workers import WeightsSaved
from mothtrap.core.ledger import Ledger, LedgerValue, Source
from mothtrap.core.measured import MEASURED
from mothtrap.core.steps import Mode
from mothtrap.core.window import Series
from mothtrap.reader.record.items import Item, items_of
from mothtrap.reader.run_facts import RunFacts
from mothtrap.reader.series.step_values import evaluation_losses, step_values


class Data(msgspec.Struct, frozen=True, kw_only=True):
    """Data that a run read: `what` is the name of the data, `about` a description."""

    what: str
    about: str
    digest: str = ""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters, data, code, packages, user, times, and logged items of a run.

    `given` names the parameters that differ from the defaults of the argument parser.
    `started_s` and `ended_s` are Unix times in seconds; 0 means unknown. `changed_count` is the
    number of files in the repository with uncommitted changes.
    """

    parameters: dict[str, LedgerValue] = {}
    parameters_from: str = ""
    given: tuple[str, ...] = ()
    data: tuple[Data, ...] = ()
    command: tuple[str, ...] = ()
    cwd: str = ""
    commit: str = ""
    branch: str = ""
    changed_count: int = 0
    sources: dict[str, str] = {}
    packages: dict[str, str] = {}
    user: str = ""
    host: str = ""
    machine: dict[str, LedgerValue] = {}
    started_s: float = 0.0
    ended_s: float = 0.0
    steps: int = 0
    items: tuple[Item, ...] = ()
    saved: tuple[WeightsSaved, ...] = ()


def record_of(run: RunFacts, logged: Iterator[tuple[int, int, ItemLogged]]) -> Record:
    """Return the record of a run, leaving out damaged parts.

    Args:
        run: the run.
        logged: items that its workers logged: attempt, rank and fact.
    """
    ledger: Ledger | None = None
    source: Source | None = None
    with suppress(DamagedDataError, OSError):
        ledger = run.ledger()
    with suppress(DamagedDataError, OSError):
        source = run.source
    facts = ledger.facts if ledger is not None else {}
    info, end = run.info, run.end
    sections = _as_texts(facts.get("versions", {})), _as_texts(facts.get("sources", {}))
    return Record(
        parameters=parameters_of(run, ledger),
        parameters_from=_sources(run, ledger),
        given=ledger.given if ledger is not None else (),
        data=tuple(_data(run, facts.get("data", {}))),
        command=info.command if info is not None else (),
        cwd=info.cwd if info is not None else "",
        commit=source.commit if source is not None else "",
        branch=source.branch if source is not None else "",
        changed_count=source.changed_count if source is not None else 0,
        packages=sections[0],
        sources=sections[1],
        user=info.user if info is not None else "",
        host=info.host if info is not None else "",
        machine=facts.get("hardware", {}),
        started_s=info.created_s if info is not None else 0.0,
        ended_s=end.ended_s if end is not None else 0.0,
        steps=run.steps,
        items=items_of(logged),
        saved=run.observations(WeightsSaved),
    )


def parameters_of(run: RunFacts, ledger: Ledger | None) -> dict[str, LedgerValue]:
    """Return the parameters of a run: detected parameters first, then logged ones.

    If there are no parameters, the settings of a trainer or a boosting library are returned.
    """
    found: dict[str, LedgerValue] = {}
    if ledger is not None:
        found |= ledger.facts.get("parameters", {})
    for logged in run.observations(ParametersLogged):
        found |= logged.values
    for began in run.observations(BoostingBegan)[:1]:
        named: dict[str, LedgerValue] = {**began.parameters}
        found = named | found
        if began.rounds_asked:
            found.setdefault("rounds", began.rounds_asked)
    for settings in run.observations(TrainerSettings)[:1]:
        names = ("accumulates", "clips", "precision", "epochs", "steps")
        own: dict[str, LedgerValue] = {f"trainer.{n}": getattr(settings, n) for n in names}
        known: dict[str, LedgerValue] = {k: v for k, v in own.items() if v not in (None, "")}
        found = known | found
    return found


def last_values(
    scalars: Iterable[Series], evaluations: Sequence[Evaluation] = ()
) -> dict[str, float]:
    """Return the last value of each metric: losses, and numbers logged by the script.

    The loss of an evaluation is the mean loss of all its batches.

    Names are `loss`, `accuracy`, or `eval/loss` with the mode; `loss:of` if several series have the
    same name.
    """
    wanted = [
        s for s in scalars if len(s.values_S) and (s.name == "loss" or s.name not in MEASURED)
    ]
    several = {(s.name, s.mode) for s in wanted if _is_second(s, wanted)}
    found: dict[str, float] = {}
    for series in wanted:
        name = series.name if series.mode == Mode.TRAIN else f"{series.mode}/{series.name}"
        name += f":{series.of}" if (series.name, series.mode) in several and series.of else ""
        found[name] = _last_value(series, evaluations)
    return found


def _last_value(series: Series, evaluations: Sequence[Evaluation]) -> float:
    last = float(series.values_S[-1])
    if series.name != "loss" or series.mode != Mode.EVAL or not math.isfinite(last):
        return last
    known = evaluation_losses(evaluations, series.of)
    in_last_S = series.steps_S == series.steps_S[-1]
    return float(step_values(series.steps_S[in_last_S], series.values_S[in_last_S], known)[1][0])


def _is_second(series: Series, others: list[Series]) -> bool:
    same = [o for o in others if (o.name, o.mode) == (series.name, series.mode)]
    return len(same) > 1


def _as_texts(values: Mapping[str, LedgerValue]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items()}


def _sources(run: RunFacts, ledger: Ledger | None) -> str:
    found = [ledger.parameters_from] if ledger is not None and ledger.parameters_from else []
    found += [logged.source for logged in run.observations(ParametersLogged)]
    return ", ".join(dict.fromkeys(found))


def _data(run: RunFacts, files: Mapping[str, LedgerValue]) -> Iterator[Data]:
    """Yield the data sets that loaders drew from, tables, and data files."""
    loaders = {seen.loader: seen for seen in run.observations(LoaderBegan)}
    known: dict[tuple[Any, ...], DataSeen] = {}
    for seen in run.observations(DataSeen):
        known.setdefault((seen.kind, seen.length, seen.root, seen.content or seen.digest), seen)
    for seen in known.values():
        about = [f"{seen.length:,} samples"] if seen.length is not None else []
        about += [f"files in {seen.root}"] if seen.root else []
        loader = loaders.get(seen.loader)
        if loader is not None:
            about.append(f"batches of {loader.batch_size}, {loader.sampler}")
            about += [loader.location] if loader.location else []
        digest = seen.content or (f"first batch {seen.digest}" if seen.digest else "")
        yield Data(what=seen.kind, about=", ".join(about), digest=digest)
    for table in run.observations(TableSeen):
        size = f"{table.rows:,} rows, {table.columns:,} columns"
        size += f", labels of mean {table.label_mean:.6g}" if table.label_mean is not None else ""
        yield Data(what=f"table {table.site}" if table.site else "training table", about=size)
    for path, described in files.items():
        text, _, digest = str(described).rpartition(", ")
        yield Data(what=path, about=text, digest=digest)
