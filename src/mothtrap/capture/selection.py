"""Which statistics of which tensors are due at a step: the union of what is needed."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from mothtrap.core.config import Config
from mothtrap.core.needs import Need
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics.summary import STATISTICS

ESSENTIAL = frozenset({"l2", "nan", "inf"})
"""Of gradients: what the non-finite checks need; never thinned."""

TABLE = frozenset(STATISTICS) - {"inactive", "saturated", "update_ratio"}
"""All statistics of a tensor by itself."""

RAW = "raw"
"""Stands among the statistics of a stream that keeps tensors whole."""

CAPTURED_KINDS = ("weight", "bias", "gradient", "activation")
DENSE_STEPS = 8
"""Steps at the start at which every stream is due: most illnesses show there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One reason to capture: tensors that match, their statistics, and when."""

    name: str
    kinds: tuple[str, ...]
    statistics: frozenset[str]
    every: int
    matches: Callable[[TensorInfo], bool]
    essential: bool = False
    modes: tuple[Mode, ...] = (Mode.TRAIN,)

    def is_due(self, mode: Mode, step: int) -> bool:
        """The stream's schedule."""
        return mode in self.modes and (
            self.every == 1 or step < DENSE_STEPS or step % self.every == 0
        )


@dataclass(slots=True)
class Selection:
    """All streams of a run, and which of them match a tensor (worked out once)."""

    streams: tuple[Stream, ...]
    _matching: dict[int, tuple[Stream, ...]] = field(default_factory=dict)
    _wanted: dict[tuple[int, frozenset[str]], frozenset[str]] = field(default_factory=dict)

    def define(self, tensor_id: int, info: TensorInfo) -> bool:
        """Make a tensor known; False when no stream will ever want it."""
        wanted = tuple(s for s in self.streams if info.kind in s.kinds and s.matches(info))
        self._matching[tensor_id] = wanted
        return bool(wanted)

    def statistics(self, tensor_id: int, active: frozenset[str]) -> frozenset[str]:
        """Union of the statistics that the active streams want of a tensor."""
        key = (tensor_id, active)
        if key not in self._wanted:
            self._wanted[key] = frozenset().union(
                *(s.statistics for s in self._matching[tensor_id] if s.name in active)
            )
        return self._wanted[key]


def streams(config: Config, needs: Iterable[Need]) -> tuple[Stream, ...]:
    """Work out the streams of a configuration and the needs of its rules."""
    if config.capture == "off":
        return ()
    found = [_of_need(need) for need in needs]
    if config.capture == "everything":
        found.append(
            Stream(
                name="everything",
                kinds=CAPTURED_KINDS,
                statistics=TABLE,
                every=1,
                matches=lambda _: True,
                modes=(Mode.TRAIN, Mode.EVAL),
            )
        )
    for name, collection in config.collections.items():
        found.append(
            Stream(
                name=f"collection {name}",
                kinds=CAPTURED_KINDS,
                statistics=TABLE,
                every=collection.every,
                matches=_glob(collection.tensors),
            )
        )
    return tuple({stream.name: stream for stream in found}.values())


def _of_need(need: Need) -> Stream:
    statistics = frozenset(need.statistics)
    essential = need.kinds == ("gradient",) and statistics <= ESSENTIAL
    roles = need.roles
    return Stream(
        name=_words(need),
        kinds=need.kinds,
        statistics=statistics,
        every=need.every,
        matches=lambda info: not roles or info.role in roles,
        essential=essential,
    )


def _words(need: Need) -> str:
    """A need as users read it: `inactive of activations (rectifier), one step in 16`."""
    words = f"{', '.join(sorted(need.statistics))} of {', '.join(f'{k}s' for k in need.kinds)}"
    roles = f" ({', '.join(sorted(need.roles))})" if need.roles else ""
    return words + roles + (f", one step in {need.every}" if need.every > 1 else "")


def _glob(patterns: Sequence[str]) -> Callable[[TensorInfo], bool]:
    return lambda info: any(fnmatch.fnmatchcase(info.identity, p) for p in patterns)
