"""Conditions of two runs, and their differences."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec
import xxhash

from mothtrap.core.config import Config, plain
from mothtrap.core.errors import DamagedDataError
from mothtrap.core.facts.data import LoaderBegan
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.core.ledger import SECTIONS
from mothtrap.core.masking import arguments_without_secrets
from mothtrap.reader.run import Run

_LOADER = ("sampler", "workers", "samples", "batch_size", "batches")
_OPTIMIZER = (
    "kind",
    "learning_rate",
    "weight_decay",
    "decoupled",
    "momentum",
    "epsilon",
    "compensated",
    "fused",
    "maximizes",
    "elements",
    "weight_dtypes",
)
_PLACES = frozenset({"runs_dir", "cache_mb", "invariants", "reference", "rule_files"})
"""Settings of paths, and of size limits."""
_TYPED = {"weight": "weights", "bias": "biases", "activation": "activations"}

Seen = TypeVar("Seen", LoaderBegan, OptimizerFacts)
Kept = TypeVar("Kept")


class ConditionDiffers(msgspec.Struct, frozen=True, kw_only=True):
    """A start condition that differs between the runs; empty if a run lacks it."""

    what: str
    first: str
    second: str


def differing_conditions(first: Run, second: Run) -> tuple[ConditionDiffers, ...]:
    """Return the differing start conditions: program, environment, data, optimizers, settings."""
    mine, theirs = dict(_conditions(first)), dict(_conditions(second))
    found = [
        ConditionDiffers(what=what, first=mine.get(what, ""), second=theirs.get(what, ""))
        for what in dict.fromkeys((*mine, *theirs))
        if mine.get(what, "") != theirs.get(what, "")
    ]
    return (*found, *_packages(first.packages(), second.packages(), {one.what for one in found}))


def _packages(
    mine: Mapping[str, str], theirs: Mapping[str, str], told: Collection[str]
) -> Iterator[ConditionDiffers]:
    """Yield unreported differences of installed packages, if both runs list packages."""
    for name in sorted({*mine, *theirs}) if mine and theirs else ():
        before, after = mine.get(name, ""), theirs.get(name, "")
        is_told = {f"versions: {name}", f"versions: {name.replace('-', '_')}"} & set(told)
        if before != after and not is_told:
            yield ConditionDiffers(what=f"packages: {name}", first=before, second=after)


def _conditions(run: Run) -> Iterator[tuple[str, str]]:
    info = run.info
    if info is not None:
        yield "command", " ".join(_words(arguments_without_secrets(info.command)))
        yield "working directory", info.cwd
        yield "mothtrap", info.mothtrap
        yield "host", info.host
    yield "workers", str(len(run.workers))
    yield from _source(run)
    yield from _ledger(run)
    for loader in _firsts(run.observations(LoaderBegan), lambda seen: seen.loader).values():
        yield from (
            (f"{loader.loader}: {name}", str(getattr(loader, name)))
            for name in _LOADER
            if getattr(loader, name) is not None
        )
    for facts in _firsts(run.observations(OptimizerFacts), lambda seen: seen.optimizer).values():
        yield from ((f"{facts.optimizer}: {n}", _text(getattr(facts, n))) for n in _OPTIMIZER)
    yield from _dtypes(run)
    if info is not None:
        yield from _settings(info.config)


def _source(run: Run) -> Iterator[tuple[str, str]]:
    """Return the commit of the script, and its uncommitted changes."""
    source = _readable(lambda: run.source)
    if source is not None and source.commit:
        yield "sources: commit", source.commit
        yield "sources: branch", source.branch
        changes = xxhash.xxh3_64_hexdigest(source.diff.encode()) if source.diff else ""
        yield "sources: uncommitted changes", " ".join((*source.changed[:4], changes)).strip()


def _ledger(run: Run) -> Iterator[tuple[str, str]]:
    """Return facts of the ledger as `section: name`; without a ledger, facts of the workers."""
    ledger = _readable(run.ledger)
    if ledger is not None:
        for section in dict.fromkeys((*SECTIONS, *ledger.facts)):
            for name, value in sorted(ledger.facts.get(section, {}).items()):
                if not (section == "random" and name.startswith("digest.")):
                    yield f"{section}: {name}", _text(value)
        return
    starts = run.observations(WorkerStarted)
    if starts:
        versions = starts[0].versions
        yield from ((f"versions: {name}", versions[name]) for name in sorted(versions))


def _readable(read: Callable[[], Kept | None]) -> Kept | None:
    """Read a part of a run; None if it is damaged, because the steps can still be compared."""
    try:
        return read()
    except DamagedDataError:
        return None


def _words(command: tuple[str, ...]) -> list[str]:
    """Return a command without the folder of its interpreter."""
    return [Path(command[0]).name, *command[1:]] if command else []


def _firsts(seen: Iterable[Seen], name: Callable[[Seen], str]) -> dict[str, Seen]:
    """Return the first report of each worker."""
    found: dict[str, Seen] = {}
    for one in seen:
        found.setdefault(name(one), one)
    return found


def _dtypes(run: Run) -> Iterator[tuple[str, str]]:
    """Return element types by kind of tensor."""
    found: dict[str, set[str]] = {}
    for tensor in run.tensors():
        if tensor.kind in _TYPED and tensor.dtype:
            found.setdefault(tensor.kind, set()).add(tensor.dtype)
    for kind, dtypes in sorted(found.items()):
        yield f"element types of {_TYPED[kind]}", ", ".join(sorted(dtypes))


def _settings(config: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Return the settings of mothtrap; a missing setting has its default."""
    for name, value in (plain(Config()) | dict(config)).items():
        if name not in _PLACES:
            yield f"setting {name}", _text(value)


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
