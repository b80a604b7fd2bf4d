"""Check the definition of a custom rule, and name the part that is wrong."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import typing
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from mothtrap.core import kinds
from mothtrap.core.collections import Statistic
from mothtrap.core.errors import ConfigError, nearest
from mothtrap.core.fact import Fact
from mothtrap.core.findings import Finding
from mothtrap.core.found import findings_of, severity_of
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.schedule import Schedule
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import Role

CODE = re.compile(r"[A-Z]{2,}[0-9]{3}")
SETTINGS = (float, int, str, bool)
EXAMPLE = "needs=[mothtrap.Need(scalars=('loss',))]"
OF_NEEDS = tuple(
    name for name in typing.get_args(Statistic) if name not in ("all", "exponents", "quantiles")
)
"""Statistics that a need may include."""
RESERVED = {
    "name": "a rule has the name of its function or class; remove `name`",
    "doc": "the docstring is the documentation of a rule; remove it",
    "fixes": "the fixes are the bullets of `What to do` in the docstring; remove it",
    "finding": "every rule has it already; call self.finding(...) in check(window)",
}
"""Methods that no rule may replace, and the alternative to each."""
_FLAGS = ("passes", "compares", "waits")
_ANNOTATED = ("code", "called", "title", "severity", "needs", "explains", *_FLAGS)


def check_code(code: object) -> None:
    """Raise ConfigError if a code is not a valid rule code."""
    if not isinstance(code, str) or not CODE.fullmatch(code):
        raise ConfigError(
            f"a rule code is capital letters and three digits, such as ACT901; got {_shown(code)}; "
            "write @mothtrap.rule('ACT901')"
        )


def completed(made: type[Rule]) -> type[Rule]:
    """Turn a class into a rule: a frozen dataclass whose `check` returns findings.

    Args:
        made: derives from `Rule`; its code and needs are set.

    Raises:
        ConfigError: a part of it is wrong; names the part and the fix.
    """
    who = made.__name__
    for name, instead in RESERVED.items():
        if getattr(made, name) is not getattr(Rule, name) and not _same(made, name):
            raise ConfigError(f"{who} sets `{name}`: {instead}")
    if inspect.isabstract(made):
        raise ConfigError(f"{who} has no method check(window); write `def check(self, window):`")
    for complaint in _complaints(made):
        raise ConfigError(f"{who}: {complaint}")
    made.severity, made.needs = severity_of(made.severity), tuple(made.needs)
    made.explains = tuple(made.explains)
    _check_call(who, made)
    if "__dataclass_fields__" not in vars(made):
        made = frozen(made)
    elif not made.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise ConfigError(f"{who} must be a frozen dataclass: rules have no state")
    _check_thresholds(who, made)
    _check_made(who, made)
    return made


def give_findings(made: type[Rule]) -> None:
    """Make the `check` of a class return a list of findings, whatever type it returned."""
    check = made.check

    @functools.wraps(check)
    def checked(self: Rule, window: Any) -> list[Finding]:
        return findings_of(self, window, check(self, window))

    made.check = checked  # type: ignore[method-assign]


def _same(made: type[Rule], name: str) -> bool:
    """Return whether a class has not overridden a method of `Rule`."""
    ours, theirs = getattr(Rule, name), getattr(made, name)
    return getattr(theirs, "__func__", None) is getattr(ours, "__func__", ours)


def _complaints(made: type[Rule]) -> Iterator[str]:
    for name in ("called", "title"):
        value: object = getattr(made, name)
        if not isinstance(value, str):
            yield f"`{name}` is {_shown(value)}; expected a string"
    try:
        severity_of(made.severity)
    except TypeError as err:
        yield f"`severity` is {err}"
    explains: object = made.explains
    if isinstance(explains, str) or not _is_of(explains, str):
        yield f"`explains` is {_shown(explains)}; expected names of rules: ['loss_diverging']"
    for name in _FLAGS:
        value = getattr(made, name)
        if not isinstance(value, bool):
            yield f"`{name}` is {_shown(value)}; expected True or False"
    needs: object = made.needs
    if isinstance(needs, Need | str) or not _is_of(needs, Need):
        yield f"`needs` is {_shown(needs)}; expected a list of mothtrap.Need, such as {EXAMPLE}"
        return
    for need in made.needs:
        for complaint in _of_need(need):
            yield f"`needs`: {complaint}"


def _of_need(need: Need) -> Iterator[str]:
    """Yield the errors in the fields of a need."""
    names: dict[str, Iterable[str] | None] = {
        "kinds": kinds.names(),
        "statistics": OF_NEEDS,
        "roles": typing.get_args(Role),
        "modes": [mode.value for mode in Mode],
        "tensors": None,
        "scalars": None,
    }
    for field, known in names.items():
        values: object = getattr(need, field)
        if isinstance(values, str) or not _is_of(values, str):
            example = repr(values) if isinstance(values, str) else "'name'"
            yield f"`{field}` is {_shown(values)}; expected a tuple of names: {field}=({example},)"
            continue
        for value in values if known is not None else ():  # type: ignore[attr-defined]
            if value not in tuple(known or ()):
                yield (
                    f"`{field}` names {value!r}, which does not exist"
                    f"{nearest(value, known or ())}; valid names: "
                    f"{', '.join(filter(None, known or ()))}"
                )
    if bool(need.kinds) != bool(need.statistics):
        missing, other = ("statistics", "kinds") if need.kinds else ("kinds", "statistics")
        yield f"it has `{other}` but no `{missing}`; give both tensors and statistics"
    facts: object = need.facts
    if not _is_of(facts, type) or not all(issubclass(fact, Fact) for fact in need.facts):
        yield (
            f"`facts` is {_shown(facts)}; expected a tuple of classes of "
            "mothtrap.core.facts: facts=(LossCall,)"
        )
    for field in ("every", "steps"):
        number: object = getattr(need, field)
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            yield f"`{field}` is {_shown(number)}; expected a whole number of steps, 1 or above"
    for field in ("of_root", "optional", "each_step"):
        flag: object = getattr(need, field)
        if not isinstance(flag, bool):
            yield f"`{field}` is {_shown(flag)}; expected True or False"
    if need.schedule is not None:
        yield from _of_schedule(need.schedule)


def _of_schedule(schedule: object) -> Iterator[str]:
    if not isinstance(schedule, Schedule):
        yield f"`schedule` is {_shown(schedule)}; expected mothtrap.Schedule(every=10)"
        return
    try:
        msgspec.convert(msgspec.to_builtins(schedule), Schedule)
        complaint = schedule.complaint()
    except (msgspec.ValidationError, TypeError) as err:
        complaint = str(err)
    if complaint:
        yield f"`schedule`: {complaint}"


def _check_call(who: str, made: type[Rule]) -> None:
    """Raise an error if `check` cannot be called with a window."""
    check: object = inspect.getattr_static(made, "check")
    if not inspect.isfunction(check):
        raise ConfigError(f"{who}: `check` is {_shown(check)}; write `def check(self, window):`")
    if inspect.iscoroutinefunction(check) or inspect.isasyncgenfunction(check):
        raise ConfigError(f"{who}: `check` is async; write `def check(self, window):`")
    try:
        inspect.signature(check, follow_wrapped=False).bind(None, None)
    except TypeError as err:
        raise ConfigError(
            f"{who}: `check` cannot be called with a window ({err}); write "
            "`def check(self, window):`, and make thresholds fields of the class"
        ) from None


def _check_thresholds(who: str, made: type[Rule]) -> None:
    for field in dataclasses.fields(made):  # type: ignore[arg-type]  # every rule is a dataclass
        if field.default_factory is not dataclasses.MISSING:
            raise ConfigError(
                f"{who}: `{field.name}` has a default_factory: rules have no state; compute "
                "it from the window in check"
            )
        if field.default is dataclasses.MISSING:
            raise ConfigError(
                f"{who}: every threshold needs a default: write `{field.name}: float = 1.0`"
            )
        check_threshold(who, field.name, field.default)


def check_threshold(who: str, name: str, default: object) -> None:
    """Raise ConfigError if a threshold has an invalid name or default."""
    if name in _ANNOTATED:
        raise ConfigError(
            f"{who}: every rule has `{name}`, so it cannot be a threshold; rename the threshold, "
            f"or write `{name} = ...` without a type in the class to set it"
        )
    if name.startswith("_") or hasattr(Rule, name):
        raise ConfigError(
            f"{who}: the threshold `{name}` has a name that every rule uses; rename it "
            f"to another one, such as `{name.strip('_')}_limit`"
        )
    if not isinstance(default, SETTINGS):
        raise ConfigError(
            f"{who}: the threshold `{name}` is {_shown(default)}; expected a number, a string, or "
            "True or False"
        )


def _check_made(who: str, made: type[Rule]) -> None:
    """Create the rule once, so that errors in its `__init__` are known before training."""
    try:
        rule = made()
        hash(rule)
    except Exception as err:  # may raise anything
        raise ConfigError(
            f"{who} cannot be created: {type(err).__name__}: {err}; a rule has no __init__ and no "
            "state: make thresholds fields, `limit: float = 1.0`"
        ) from err


def _is_of(values: object, kind: type) -> bool:
    return isinstance(values, list | tuple) and all(isinstance(one, kind) for one in values)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
