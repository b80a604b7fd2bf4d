"""Named sets of tensors, and the values to capture."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

from mothtrap.core import kinds as known_kinds
from mothtrap.core.errors import nearest
from mothtrap.core.measured import MEASURED
from mothtrap.core.schedule import Schedule
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo

# fmt: off
Statistic = Literal[
    "all", "count", "nan", "inf", "zero", "min", "max", "mean", "std", "abs_mean", "abs_max",
    "l2", "inactive", "saturated", "update_ratio", "exponents", "quantiles",
]
# fmt: on
"""Statistic of a tensor; `all` = all but the last five."""

ANY_FINDING, REQUEST = CALLS = ("finding", "request")
"""Values of `on` that are not rule codes: a finding of any rule, or a request while the job runs.
"""

REGEX = "re:"
Reduction = Callable[[Any], float]
"""Function that takes the values of a tensor as a numpy array, and returns one number."""

Matcher = Callable[[TensorInfo], bool]


class Collection(Schedule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Set of tensors to capture, with the data to capture of each and a schedule.

    Tensors: a tensor belongs to the collection if it matches one of `tensors` and, if given, one of
        `modules` (globs over module paths) and one of `module_types` (class names). A pattern in
        `tensors` is a built-in collection (`gradients`), a glob over names (`gradients:blocks.0.*`,
        with a kind, a built-in collection, or `*` before the colon), or a regular expression that
        is searched in `kind:name` (`re:weight:.*[qkv]$`). A collection without a selection that has
        the name of a built-in collection selects the tensors of the built-in collection. `inputs`
        are the inputs of whole models, unless `modules` or `module_types` are given; `input:*` and
        `*` include the inputs of modules.

    Data: `statistics` lists statistics by id, or `all`; an empty list means none. `quantiles`
    and `reductions` are computed from copies of the tensors. Without a schedule, `exponents`,
    `inactive` and `saturated` are captured at one step in 16. `raw` captures the values, and
    `shape_only` only the shape at each step. `reductions` are functions that take one array and
    return a number.

    Schedule: a collection is itself a `Schedule`, which applies in each of `modes`. `eval` and
    `predict` override the schedule in these modes. With `on` (`finding`, rule codes or families),
    the collection is captured only in the `for_steps` steps after such a finding.

    Two optional limits bound the cost: `budget_mb` is the size in MB of the copies that one
    process stores in a run, and `overhead` is a share of the training time. Without them,
    everything is captured regardless of cost.
    """

    tensors: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    module_types: tuple[str, ...] = ()
    statistics: tuple[Statistic, ...] | None = None
    raw: bool = False
    shape_only: bool = False
    modes: tuple[Literal["train", "eval", "predict"], ...] = ("train",)
    eval: Schedule | None = None
    predict: Schedule | None = None
    on: tuple[str, ...] = ()
    for_steps: int = 10
    budget_mb: float | None = None
    overhead: float | None = None
    reductions: dict[str, Any] = {}

    def schedule(self, mode: Mode) -> Schedule | None:
        """Return the schedule in a mode; None if nothing is captured in that mode."""
        own = {Mode.EVAL: self.eval, Mode.PREDICT: self.predict}.get(mode)
        if own is not None:
            return own
        return self if mode.value in self.modes else None

    @property
    def numbers(self) -> tuple[Statistic, ...]:
        """Requested statistics; all if neither statistics nor other data are requested."""
        if self.statistics is not None:
            return self.statistics
        return () if self.raw or self.shape_only or self.reductions else ("all",)


def kinds(name: str, collection: Collection) -> tuple[str, ...]:
    """Return the kinds of tensors that a collection may contain.

    Args:
        name: name of the collection.
        collection: a valid collection (see `complaint`).
    """
    found: set[str] = set()
    for pattern in _patterns(name, collection):
        found.update(_kinds_of(pattern))
    return tuple(kind for kind in known_kinds.names() if kind in found)


def matcher(name: str, collection: Collection) -> Matcher:
    """Return a function that tests whether a tensor belongs to a collection."""
    modules, types = collection.modules, collection.module_types
    names_parts = bool(modules or types)
    tests = [_test(pattern, names_parts) for pattern in _patterns(name, collection)]

    def matches(info: TensorInfo) -> bool:
        return (
            any(test(info) for test in tests)
            and (not modules or any(fits(info.module, glob) for glob in modules))
            and (not types or info.module_type in types)
        )

    return matches


def complaint(name: str, collection: Collection) -> str | None:
    """Return why a collection is invalid, beginning with the key; None if it is valid."""
    found = collection.complaint()
    for key in ("eval", "predict"):
        own = getattr(collection, key)
        if not found and own is not None and own.complaint():
            found = f"{key}.{own.complaint()}"
    return found or _complaint_of_choice(name, collection) or _complaint_of_content(collection)


def _complaint_of_choice(name: str, collection: Collection) -> str | None:
    if not _patterns(name, collection):
        hint = nearest(name, known_kinds.plurals())
        return (
            f'tensors is missing: set tensors = ["gradients:*"], modules or module_types{hint}; '
            f"collections that need none of them: {', '.join(known_kinds.plurals())}"
        )
    return next(filter(None, map(_complaint_of_pattern, collection.tensors)), None)


def _complaint_of_pattern(pattern: str) -> str | None:
    if pattern.startswith(REGEX):
        try:
            re.compile(pattern.removeprefix(REGEX))
        except re.error as err:
            return f"tensors: {pattern!r} is not a valid regular expression: {err}"
        return None
    if _kinds_of(pattern):
        return None
    kind, colon, _ = pattern.partition(":")
    if colon:
        hint = nearest(kind, [*known_kinds.plurals(), *known_kinds.names()])
        return (
            f"tensors: {pattern!r} has an unknown kind{hint}; kinds: "
            f"{', '.join(known_kinds.names())}"
        )
    return (
        f"tensors: {pattern!r} is not a built-in "
        f"collection{nearest(kind, known_kinds.plurals())}; for names write '*:{pattern}'; "
        f"built-in: {', '.join(known_kinds.plurals())}"
    )


def _complaint_of_content(collection: Collection) -> str | None:
    kept = bool(collection.numbers or collection.raw or collection.reductions)
    if collection.shape_only and kept:
        return "shape_only cannot be combined with raw, statistics, or reductions; keep one of them"
    if not kept and not collection.shape_only:
        return 'statistics is empty: set statistics = ["all"], raw = true or shape_only = true'
    if not collection.modes and collection.eval is None and collection.predict is None:
        return "modes is empty: expected some of train, eval, predict"
    if collection.for_steps < 1:
        return f"for_steps must be 1 step or more, not {collection.for_steps}"
    if collection.budget_mb is not None and not collection.budget_mb > 0:
        return f"budget_mb must be more than 0, not {collection.budget_mb:g}"
    if collection.overhead is not None and not 0 < collection.overhead < 1:
        return f"overhead must be a share between 0 and 1, not {collection.overhead:g}"
    for name, function in collection.reductions.items():
        if not name:
            return "reductions has a function without a name"
        if name in MEASURED:
            return (
                f"reductions.{name}: mothtrap already measures a number with this name; choose "
                "another name"
            )
        if not callable(function):
            return (
                f"reductions.{name} must be a function of one array, not {function!r}; functions "
                "can be passed only in Python: mothtrap.watch(..., collections=...)"
            )
    return None


def _patterns(name: str, collection: Collection) -> Sequence[str]:
    if collection.tensors:
        return collection.tensors
    if name in known_kinds.plurals():
        return (name,)
    if collection.modules or collection.module_types:
        return tuple(f"{kind}:*" for kind in known_kinds.usual())
    return ()


def _kinds_of(pattern: str) -> tuple[str, ...]:
    """Return the kinds that a pattern can match; empty if the pattern is invalid."""
    if pattern.startswith(REGEX):
        named = {name for name in known_kinds.names() if f"{name}:" in pattern}
        return tuple({*known_kinds.uncostly(), *named})
    kind, colon, _ = pattern.partition(":")
    plurals = known_kinds.plurals()
    if kind in plurals:
        return (plurals[kind],)
    if kind in known_kinds.names():
        return (kind,) if colon else ()
    among = known_kinds.uncostly() if colon or kind == "*" else ()
    return tuple(each for each in among if fnmatchcase(each, kind))


def _test(pattern: str, names_parts: bool) -> Matcher:
    if pattern.startswith(REGEX):
        search = re.compile(pattern.removeprefix(REGEX)).search
        return lambda info: search(info.identity) is not None
    chosen = _kinds_of(pattern)
    glob = pattern.partition(":")[2] or "*"
    if pattern == known_kinds.kind_of("input").plural and not names_parts:
        return lambda info: info.kind in chosen and info.of_root
    return lambda info: info.kind in chosen and fits(info.name, glob)


def fits(name: str, glob: str) -> bool:
    """Return whether a glob matches a name.

    Brackets match a set of characters, or literal brackets in the name.
    """
    return fnmatchcase(name, glob) or (
        "[" in glob and fnmatchcase(name, glob.replace("[", "[[]"))  # `Adam.parameters[0].*`
    )


def function_name(function: object) -> str:
    """Return the name of a function, for formats that cannot store the function itself."""
    return str(getattr(function, "__qualname__", type(function).__name__))
