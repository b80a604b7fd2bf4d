"""Reactions to events: the tables of a configuration, and the interface of actions.

A module of `mothtrap.actions`, or of the entry-point group of that name, is one action. It has
`make(settings, where) -> Sequence[Action]`, with one `Action` for each target. `settings` is the
value that a table of the configuration holds under the action's name (None without a value),
`where` names the table in error messages. `make` raises `ConfigError` or `MissingExtraError` for
settings that cannot work. An error never repeats a value, which may be a secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from mothtrap.core.collections import Collection
from mothtrap.core.errors import ConfigError, nearest
from mothtrap.core.events import EVENTS, NEWS, Event
from mothtrap.core.findings import RuleState
from mothtrap.core.quiet_hours import check_hours
from mothtrap.core.values import fault, to_struct, unknown_key

MASK = "***"
SHOWN = ("name", "when", "do", "cooldown_s", "remind_s", "quiet_hours", "capture", "function")
"""Keys of a table whose values are never secret; all other values are masked when a table is shown
or stored."""
COOLDOWN_S = 300.0
"""Seconds in which a rule causes no second reaction of a table; chosen by hand."""


class When(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Condition of a reaction; an event must meet every given condition.

    `rules` are codes or prefixes of codes, and `layers` are globs over the layers of the finding.
    `severity` is the lowest severity. `for_steps` is the number of captured steps for which the
    finding was active, and
    `for_minutes` the number of minutes since it was opened. `events` are kinds of events; the
    default is a finding that opens, gets worse or reopens. `states`: a rule changes to one of these
    states.
    """

    rules: tuple[str, ...] = ()
    severity: Literal["error", "warning", "info"] = "warning"
    layers: tuple[str, ...] = ()
    for_steps: int = 1
    for_minutes: float = 0.0
    events: tuple[str, ...] = ()
    states: tuple[str, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of events that match."""
        stated = ("rule_state",) if self.states else ()
        return (*self.events, *stated) or NEWS


class Reaction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[actions]]` table of a configuration; `settings` are by name of the action.

    `cooldown_s`: after a rule has triggered this reaction, it triggers it again only after this
    many seconds, or when its finding becomes more severe. `remind_s`: a finding that is still
    active is reported again after this many seconds, until it passes, is acknowledged or muted, or
    the job ends (0: never). `quiet_hours`: hours such as `22:00-07:00` in which the reaction waits.
    """

    name: str
    do: tuple[str, ...]
    when: When = When()
    cooldown_s: float = COOLDOWN_S
    remind_s: float = 0.0
    quiet_hours: str = ""
    settings: dict[str, object] = {}


class Job(Protocol):
    """Interface of the job for an action."""

    @property
    def path(self) -> Path:
        """Folder of the run."""

    @property
    def is_running(self) -> bool:
        """Return whether the job is still training."""

    def stop(self, reason: str, prunes: Literal["", "optuna", "ray"] = "") -> bool:
        """Stop the job, or a library's trial, at a step that all workers agree on.

        Returns:
            False if the stop was already requested.
        """

    def snapshot(self) -> None:
        """Request a snapshot of the next step."""

    def capture(self, add: Mapping[str, Collection], for_steps: int | None) -> None:
        """Capture more data from the next step on."""

    def call(self, function: str, event: Event) -> None:
        """Call a configured function in the job at a step boundary."""


class Action(Protocol):
    """One reaction to one target; created once, and run for each matching event."""

    @property
    def label(self) -> str:
        """Name for logs; never contains a secret."""

    @property
    def target(self) -> str:
        """Identity of the target within its table; never contains a secret."""

    @property
    def is_message(self) -> bool:
        """Return whether the action sends data out of this process.

        A message is recorded and retried until it is delivered. Other actions affect the job
        immediately.
        """

    def run(self, event: Event, job: Job, delivery: str) -> str:
        """React to an event.

        Args:
            event: the event that triggered the action.
            job: job in which it happened.
            delivery: id of this reaction, which stays the same on every retry.

        Returns:
            A short description of the result; "" if nothing was done.

        Raises:
            DeliveryError: trying again later may help.
            ActionError: the action cannot be carried out.
        """


def reactions(tables: Sequence[Mapping[str, object]], where: str = "") -> tuple[Reaction, ...]:
    """Return the reactions of a configuration.

    Args:
        tables: the `[[actions]]` tables.
        where: source of the tables; "" if it is obvious.

    Raises:
        ConfigError: a table has an unknown key or an invalid value; values that may be secrets are
            not included in the message.
    """
    made: list[Reaction] = []
    for index, table in enumerate(tables):
        key = f"actions[{index}]"
        values = {name.replace("-", "_"): value for name, value in table.items()}
        do = values.get("do")
        named = do if isinstance(do, list | tuple) else ()
        if not named or not all(isinstance(word, str) for word in named):
            raise fault(where, f'{key} needs `do`, a list of actions such as ["notify", "stop"]')
        known = ("name", "when", "do", "cooldown_s", "remind_s", "quiet_hours")
        settings = {str(word): values.pop(str(word), None) for word in named}
        for name in values:
            if name not in known:
                raise fault(where, unknown_key(name, (*known, *settings), key))
        values.setdefault("name", "+".join(map(str, named)))
        reaction = to_struct({**values, "settings": {}}, Reaction, f"{where}: {key}".lstrip(": "))
        reaction = msgspec.structs.replace(
            reaction, settings={k: v for k, v in settings.items() if v is not None}
        )
        _check(reaction, where, key)
        if any(other.name == reaction.name for other in made):
            reaction = msgspec.structs.replace(reaction, name=f"{reaction.name}-{index + 1}")
        made.append(reaction)
    return tuple(made)


def in_job(tables: Sequence[Mapping[str, object]]) -> frozenset[str]:
    """Return the functions that the tables call in the job."""
    given = [table.get("function") for table in tables]
    found = [f for f in given if isinstance(f, Mapping) and f.get("in_job")]
    return frozenset(str(function.get("function")) for function in found)


def lasting(tables: Sequence[Mapping[str, object]]) -> frozenset[int]:
    """Return the durations, in steps, after which the tables react to a finding."""
    return frozenset(reaction.when.for_steps for reaction in reactions(tables))


def check_tables(tables: object, where: str) -> None:
    """Raise `ConfigError` if `actions` is not a list of tables, without repeating its values."""
    listed = isinstance(tables, list | tuple)
    if not listed or not all(isinstance(t, Mapping) for t in tables):  # type: ignore[attr-defined]
        raise fault(where, "actions must be a list of tables; each begins with [[actions]]")


def _check(reaction: Reaction, where: str, key: str) -> None:
    when = reaction.when
    for given, possible, name in (
        (when.events, EVENTS, "events"),
        (when.states, tuple(state.value for state in RuleState), "states"),
    ):
        for word in given:
            if word not in possible:
                hint = f"{nearest(word, possible)}; possible: {', '.join(possible)}"
                raise fault(where, f"{key}.when.{name} cannot be {word!r}{hint}")
    if when.for_steps < 1:
        raise fault(where, f"{key}.when.for_steps must be 1 step or more, not {when.for_steps}")
    if not 0 <= when.for_minutes < float("inf"):
        raise fault(where, f"{key}.when.for_minutes must be 0 or more, not {when.for_minutes:g}")
    for name in ("cooldown_s", "remind_s"):
        if not 0 <= (seconds := getattr(reaction, name)) < float("inf"):
            raise fault(where, f"{key}.{name} must be 0 or more, not {seconds:g}")
    try:
        check_hours(reaction.quiet_hours)
    except ConfigError as err:
        raise fault(where, f"{key}.quiet_hours {err}") from None


def masked(tables: Sequence[Mapping[str, object]]) -> tuple[dict[str, object], ...]:
    """Return tables that are safe to show and store; possible secrets become `***`."""
    return tuple({k: v if k in SHOWN else MASK for k, v in table.items()} for table in tables)


def settings_of(settings: object, name: str, key: str, where: str) -> Mapping[str, object]:
    """Return the settings of an action as a table; a single value becomes the value of `key`.

    Raises:
        ConfigError: there are no settings.
    """
    if settings is None:
        raise ConfigError(f"{where}: {name} needs {name} = ...; the configuration has none")
    return settings if isinstance(settings, Mapping) else {key: settings}
