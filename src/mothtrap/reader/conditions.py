"""What two runs were started with, and how that differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from mothtrap.core.config import Config, plain
from mothtrap.core.data_observations import LoaderBegan
from mothtrap.core.observations import OptimizerFacts, WorkerStarted
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
_PLACES = frozenset({"runs_dir", "invariants", "reference", "rule_files"})
"""Settings that say where something lies."""
_TYPED = {"weight": "weights", "bias": "biases", "activation": "activations"}


class ConditionDiffers(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the runs were started with; empty where one has nothing of it."""

    what: str
    first: str
    second: str


def differing_conditions(first: Run, second: Run) -> tuple[ConditionDiffers, ...]:
    """Return what differs, in a fixed order: program, environment, data, optimizers, settings."""
    mine, theirs = dict(_conditions(first)), dict(_conditions(second))
    return tuple(
        ConditionDiffers(what=what, first=mine.get(what, ""), second=theirs.get(what, ""))
        for what in dict.fromkeys((*mine, *theirs))
        if mine.get(what, "") != theirs.get(what, "")
    )


def _conditions(run: Run) -> Iterator[tuple[str, str]]:
    info = run.info
    if info is not None:
        yield "command", " ".join(_words(info.command))
        yield "working directory", info.cwd
        yield "python", info.python
        yield "mothtrap", info.mothtrap
        yield "host", info.host
    yield "workers", str(len(run.workers))
    starts = run.observations(WorkerStarted)
    if starts:
        yield from ((name, version) for name, version in sorted(starts[0].versions.items()))
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


def _words(command: tuple[str, ...]) -> list[str]:
    """A command without the folder of its interpreter."""
    return [Path(command[0]).name, *command[1:]] if command else []


Seen = TypeVar("Seen", LoaderBegan, OptimizerFacts)


def _firsts(seen: Iterable[Seen], name: Callable[[Seen], str]) -> dict[str, Seen]:
    """What was told first of each."""
    found: dict[str, Seen] = {}
    for one in seen:
        found.setdefault(name(one), one)
    return found


def _dtypes(run: Run) -> Iterator[tuple[str, str]]:
    """Element types by kind of tensor."""
    found: dict[str, set[str]] = {}
    for tensor in run.tensors():
        if tensor.kind in _TYPED and tensor.dtype:
            found.setdefault(tensor.kind, set()).add(tensor.dtype)
    for kind, dtypes in sorted(found.items()):
        yield f"element types of {_TYPED[kind]}", ", ".join(sorted(dtypes))


def _settings(config: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Settings of mothtrap; one that is not there has its default."""
    for name, value in (plain(Config()) | dict(config)).items():
        if name not in _PLACES:
            yield f"setting {name}", _text(value)


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
