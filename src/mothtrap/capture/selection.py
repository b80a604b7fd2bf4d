"""Statistics that are due at a step, by tensor: the union of all needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from mothtrap.capture.governor import Priority
from mothtrap.core import collections
from mothtrap.core.collections import Collection, Reduction
from mothtrap.core.config import Config
from mothtrap.core.kinds import kind_of, usual
from mothtrap.core.needs import Need
from mothtrap.core.schedule import EVERY_STEP, Schedule
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics.distribution import DISTRIBUTIONS, EXPONENTS
from mothtrap.statistics.summary import STATISTICS

ESSENTIAL = frozenset({"l2", "nan", "inf"})
"""Statistics of gradients for the non-finite checks; never skipped."""

TABLE = frozenset(STATISTICS) - {"inactive", "saturated", "update_ratio"}
"""Statistics that need only the tensor itself."""

RARE = frozenset({EXPONENTS, "inactive", "saturated"})
"""Statistics that need a separate pass over a tensor, by default at ..."""
RARE_EVERY = 16
"""Interval of rarely captured statistics; chosen by hand: a distribution changes slowly."""
BESIDE_EXPONENTS = frozenset({"zero", "nan"})
"""Numbers of elements that are in no bin, by reason; captured with the exponents."""

RAW = "raw"
"""Entry in the statistics of a stream that stores whole tensors."""

SHAPE = "shape"
"""Entry in the statistics of a stream that stores only shapes."""

EVERYTHING = "everything"
"""Name of the stream of `capture = "everything"`, before it is split by priority."""

IN_WORDS = {
    "inactive": "inactive units",
    "saturated": "saturated units",
    "update_ratio": "update ratios",
}
"""Readable names of statistics whose ids are not words."""
ROLES_IN_WORDS = {"rectifier": "ReLU and similar", "saturating": "sigmoid and tanh"}
FEW_STEPS = 8
"""Maximum number of named steps of a need that are never skipped; chosen by hand."""
DENSE_STEPS = 8
"""Steps at the start at which rules get all data, because most faults show there."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stream:
    """A reason to capture: matching tensors, the data to capture, and a schedule.

    Attributes:
        statistics: ids, `RAW`, `SHAPE`, and names of data derived from copies.
        schedules: schedules by mode; missing modes are not captured.
        essential: never skipped.
        overhead: share of the training time that its collection may take; None = the share for
            mothtrap's own captures, unless it is essential.
        on: rule codes or families, or `finding`: due only after such a finding, and then ... ...
        for_steps: ... for this many steps.
        budget_bytes: limit on the copies of a run; None = no limit.
        reductions: functions behind the names among `statistics`.
        collection: its collection, if any.
        own: one of the user's own rules needs it.
        copies: whether it needs copies of whole tensors.
        priority: order in which streams are skipped; for kinds with several priorities see
            `by_priority`.
    """

    name: str
    kinds: tuple[str, ...]
    statistics: frozenset[str]
    matches: Callable[[TensorInfo], bool]
    schedules: Mapping[Mode, Schedule] = field(default_factory=lambda: {Mode.TRAIN: EVERY_STEP})
    essential: bool = False
    on: tuple[str, ...] = ()
    for_steps: int = 0
    budget_bytes: float | None = None
    reductions: Mapping[str, Reduction] = field(default_factory=dict)
    collection: str = ""
    own: bool = False
    overhead: float | None = None
    copies: bool = field(init=False)
    priority: Priority = field(init=False)

    def __post_init__(self) -> None:
        copies = not self.statistics <= NUMBERS
        of_kinds = max(map(_priority, self.kinds), default=Priority.ACTIVATIONS)
        object.__setattr__(self, "copies", copies)
        object.__setattr__(self, "priority", Priority.COPIES if copies else of_kinds)

    @property
    def in_light_steps(self) -> bool:
        """Return whether the stream also captures in light steps.

        True for data that guards the steps, and for values that users log.
        """
        guards = self.kinds == ("gradient",) and self.statistics <= ESSENTIAL
        in_each = self.essential and not self.collection
        return in_each and (guards or self.kinds == ("metric",)) and not self.on

    @property
    def is_asked(self) -> bool:
        """Return whether a user requested exactly this, so its cost is not mothtrap's."""
        return bool(self.collection) or self.own or self.kinds == ("metric",)

    @property
    def by_user(self) -> bool:
        """Return whether a user requested it.

        Steps in which it is due are full steps.
        """
        return bool(self.collection) or self.own or self.name.startswith(EVERYTHING)

    @property
    def ends(self) -> bool:
        """Return whether it was requested for a limited number of steps."""
        return self.on == (collections.REQUEST,)

    def is_over(self, steps: Mapping[Mode, int]) -> bool:
        """Return whether no schedule includes the step of its mode, or a later one."""
        return all(schedule.is_over(steps[mode]) for mode, schedule in self.schedules.items())

    def is_called_by(self, code: str) -> bool:
        """Return whether a finding of a rule activates it."""
        return any(word == collections.ANY_FINDING or code.startswith(word) for word in self.on)


NUMBERS = frozenset({*STATISTICS, EXPONENTS, SHAPE})
"""Statistics computed from a tensor in place; all others need a copy of it."""

MAX_GROUPS: Final = 1024
"""Maximum number of tensor lists whose groups are cached; chosen by hand."""

MAX_ANSWERS: Final = 64
"""Average number of sets of active streams for which a tensor's statistics are cached; chosen by
hand, because skipped streams can produce any number of sets.
"""

Groups = list[tuple[frozenset[str], list[int]]]


@dataclass(slots=True)
class Selection:
    """All streams of a run, with cached matches of tensors."""

    streams: tuple[Stream, ...]
    _infos: dict[int, TensorInfo] = field(default_factory=dict)
    _matching: dict[int, tuple[Stream, ...]] = field(default_factory=dict)
    _wanted: dict[tuple[int, frozenset[str]], frozenset[str]] = field(default_factory=dict)
    _groups: dict[tuple[tuple[int, ...], frozenset[str]], Groups] = field(default_factory=dict)

    def define(self, tensor_id: int, info: TensorInfo) -> bool:
        """Define a tensor; return whether any stream currently needs it."""
        self._infos[tensor_id] = info
        self._groups.clear()
        wanted = tuple(s for s in self.streams if info.kind in s.kinds and s.matches(info))
        self._matching[tensor_id] = wanted
        return bool(wanted)

    def change(self, streams: tuple[Stream, ...]) -> list[int]:
        """Replace the streams; return the known tensors that any of them needs."""
        self.streams = streams
        self._wanted.clear()
        self._groups.clear()
        return [number for number, info in self._infos.items() if self.define(number, info)]

    def matching(self, tensor_id: int) -> tuple[Stream, ...]:
        """Return the streams that need a tensor at any time."""
        return self._matching[tensor_id]

    def kind(self, tensor_id: int) -> str:
        """Return the kind of a tensor."""
        return self._infos[tensor_id].kind

    def idle_collections(self) -> tuple[str, ...]:
        """Return collections that match no known tensor and do not wait for a finding."""
        busy = {s.collection for streams in self._matching.values() for s in streams}
        asked = dict.fromkeys(s.collection for s in self.streams if s.collection and not s.on)
        return tuple(name for name in asked if name not in busy)

    def statistics(self, tensor_id: int, active: frozenset[str]) -> frozenset[str]:
        """Return all statistics of a tensor that the active streams need."""
        key = (tensor_id, active)
        found = self._wanted.get(key)
        if found is None:
            if len(self._wanted) >= MAX_ANSWERS * len(self._infos):
                self._wanted.clear()
            matching = self._matching[tensor_id]
            found = frozenset().union(*(s.statistics for s in matching if s.name in active))
            self._wanted[key] = found
        return found

    def groups(self, tensor_ids: Sequence[int], active: frozenset[str]) -> Groups:
        """Group tensors by the statistics that the active streams need, each with its indices."""
        key = (tuple(tensor_ids), active)
        found = self._groups.get(key)
        if found is None:
            if len(self._groups) >= MAX_GROUPS:
                self._groups.clear()
            places: dict[frozenset[str], list[int]] = {}
            for place, tensor_id in enumerate(tensor_ids):
                places.setdefault(self.statistics(tensor_id, active), []).append(place)
            found = self._groups[key] = [*places.items()]
        return found


def streams(config: Config, needs: Iterable[Need], own: Iterable[Need] = ()) -> tuple[Stream, ...]:
    """Create the streams for a configuration and the needs of its rules.

    Args:
        config: configuration of the run.
        needs: needs of rules.
        own: needs of the user's rules, which are never skipped.
    """
    if config.capture == "off":
        return ()
    found = [_of_need(need) for need in needs if need.kinds]
    found += [replace(_of_need(need), essential=True, own=True) for need in own if need.kinds]
    if config.capture == "everything":
        found.append(
            Stream(
                name=EVERYTHING,
                kinds=usual(),
                statistics=TABLE,
                matches=lambda _: True,
                schedules={Mode.TRAIN: EVERY_STEP, Mode.EVAL: EVERY_STEP},
            )
        )
    for name, collection in config.collections.items():
        found += of_collection(name, collection)
    if config.workers == "merged":
        found = [replace(stream, matches=of_first_holder(stream.matches)) for stream in found]
    return by_priority({stream.name: stream for stream in found}.values())


def of_first_holder(matches: Callable[[TensorInfo], bool]) -> Callable[[TensorInfo], bool]:
    """Return a match without replicas, which the worker of lowest rank captures."""
    return lambda info: not info.held_before and matches(info)


def by_priority(found: Iterable[Stream]) -> tuple[Stream, ...]:
    """Split streams of numbers so that each has one priority and is skipped separately."""
    parts: list[Stream] = []
    for stream in found:
        kinds: dict[Priority, list[str]] = {}
        for kind in stream.kinds:
            kinds.setdefault(_priority(kind), []).append(kind)
        if stream.essential or stream.copies or len(kinds) == 1:
            parts.append(stream)
            continue
        for group in kinds.values():
            name = f"{stream.name}: {_plural(group)}"
            parts.append(replace(stream, name=name, kinds=tuple(group)))
    return tuple(parts)


def _plural(names: Iterable[str]) -> str:
    return ", ".join(kind_of(name).plural.replace("_", " ") for name in names)


def _priority(kind: str) -> Priority:
    return Priority[kind_of(kind).priority.upper()]


def of_collection(name: str, collection: Collection) -> tuple[Stream, ...]:
    """Return the streams of a collection: one for its numbers, and one for its copies.

    Copies have their own stream, so that they are skipped separately. The same applies to data
    captured at one step in `RARE_EVERY`, unless the collection has a schedule.
    """
    functions = {f"{name}.{key}": function for key, function in collection.reductions.items()}
    asked = frozenset(collection.numbers)
    numbers = (asked & NUMBERS) | (TABLE if "all" in asked else frozenset())
    numbers |= {SHAPE, "count"} if collection.shape_only else frozenset()
    rare, numbers = numbers & RARE, numbers - RARE
    rare |= BESIDE_EXPONENTS if EXPONENTS in rare else frozenset()
    copies = (asked & DISTRIBUTIONS.keys()) | functions.keys()
    copies |= {RAW} if collection.raw else frozenset()
    schedules = {mode: schedule for mode in Mode if (schedule := collection.schedule(mode))}
    budget_mb = collection.budget_mb

    def stream(
        label: str, statistics: frozenset[str], schedules: Mapping[Mode, Schedule] = schedules
    ) -> Stream:
        return Stream(
            name=label,
            kinds=collections.kinds(name, collection),
            statistics=statistics,
            matches=collections.matcher(name, collection),
            schedules=schedules,
            essential=collection.overhead is None,
            overhead=collection.overhead,
            on=collection.on,
            for_steps=collection.for_steps,
            budget_bytes=None if budget_mb is None else budget_mb * 2**20,
            reductions={key: functions[key] for key in statistics & functions.keys()},
            collection=name,
        )

    found = []
    if numbers:
        found.append(stream(f"collection {name}", numbers))
    if rare:
        seldom = {mode: _seldom(schedule) for mode, schedule in schedules.items()}
        words = ", ".join(sorted(rare & RARE))
        found.append(stream(f"{words} of collection {name}", rare, seldom))
    if copies:
        found.append(stream(f"copies of collection {name}", copies))
    return by_priority(found)


def _seldom(schedule: Schedule) -> Schedule:
    """Return the schedule with one step in `RARE_EVERY` if it only defines a start."""
    if schedule.every is not None or schedule.steps or schedule.logarithmic:
        return schedule
    return Schedule(every=RARE_EVERY, start=schedule.start, stop=schedule.stop)


LOGGED = Stream(
    name="logged tensors",
    kinds=("metric",),
    statistics=frozenset({RAW}),
    matches=lambda _: True,
    essential=True,
)
"""Stream of values that users log themselves."""


def every(steps: int) -> Schedule:
    """Return a schedule for rules: every n-th step, and all steps at the start."""
    dense = () if steps == 1 else tuple(range(DENSE_STEPS))
    return Schedule(every=steps, steps=dense)


def _of_need(need: Need) -> Stream:
    statistics = frozenset(need.statistics)
    essential = need.kinds == ("gradient",) and statistics <= ESSENTIAL
    essential = essential or _is_bounded(need.schedule)
    return Stream(
        name=_words(need),
        kinds=need.kinds,
        statistics=statistics,
        matches=_matcher(need),
        schedules=dict.fromkeys(need.modes, need.schedule or every(need.every)),
        essential=essential,
    )


def _is_bounded(schedule: Schedule | None) -> bool:
    """Return whether a schedule names only a few steps, whose cost is paid once."""
    if schedule is None or schedule.every is not None or schedule.logarithmic:
        return False
    return 0 < len(schedule.steps) <= FEW_STEPS


def _matcher(need: Need) -> Callable[[TensorInfo], bool]:
    named = collections.matcher("", Collection(tensors=need.tensors)) if need.tensors else None

    def concerns(info: TensorInfo) -> bool:
        in_role = not need.roles or info.role in need.roles
        return in_role and (info.of_root or not need.of_root) and (named is None or named(info))

    return concerns


def _words(need: Need) -> str:
    """Return a need in words: `inactive units of activations (ReLU and similar)`."""
    statistics = (IN_WORDS.get(name, name) for name in sorted(need.statistics))
    words = f"{', '.join(statistics)} of {_plural(need.kinds)}"
    named = [ROLES_IN_WORDS.get(role, role) for role in sorted(need.roles)]
    roles = f" ({', '.join(named)})" if named else ""
    whole = " of whole models" if need.of_root else ""
    modes = "" if need.modes == (Mode.TRAIN,) else f" in {' and '.join(sorted(need.modes))}"
    names = f" ({', '.join(need.tensors)})" if need.tensors else ""
    return words + whole + roles + names + modes + _cadence(need)


def _cadence(need: Need) -> str:
    """Return the cadence of a need in words; different schedules always have different words."""
    schedule = need.schedule
    if schedule is None:
        return f", one step in {need.every}" if need.every > 1 else ""
    set_up = {name: getattr(schedule, name) for name in schedule.__struct_fields__}
    default = Schedule()
    told = [f"{k} {v}" for k, v in set_up.items() if v != getattr(default, k)]
    return f", {', '.join(told) or 'each step'}"
