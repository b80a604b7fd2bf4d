"""Reactions of a configuration, prepared and run for the events of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from mothtrap.core import registry
from mothtrap.core.actions import Action, Job, Reaction, reactions
from mothtrap.core.config import Config
from mothtrap.core.errors import ActionError, ConfigError, UnknownNameError, nearest
from mothtrap.core.events import Event
from mothtrap.monitor.alerts import Alerts, Glance
from mothtrap.monitor.catalogue import left_out_of, rule_classes
from mothtrap.monitor.deliveries import Deliveries
from mothtrap.monitor.routing import Call, Router

PACKAGE = "mothtrap.actions"
Targets = Mapping[tuple[str, str], Sequence[Action]]
"""Actions of each reaction, one per target, by names of reaction and action."""


def load_reactions(config: Config) -> tuple[tuple[Reaction, ...], Targets]:
    """Return the reactions of a configuration, and their actions.

    Raises:
        ConfigError: an action, rule or setting does not exist or cannot be used.
        MissingExtraError: an action needs a package that is not installed.
        PluginError: an action of another distribution cannot be imported.
    """
    found = reactions(config.actions, "configuration")
    codes = [rule.code for rule in rule_classes(config.rule_files)] if found else []
    faults = left_out_of(config.rule_files) if found else ()
    codes += [fault.code for fault in faults]  # "" if the code is unknown, so it may be any rule
    families = sorted({code.rstrip("0123456789") for code in codes})
    targets: dict[tuple[str, str], Sequence[Action]] = {}
    for index, reaction in enumerate(found):
        where = f"configuration: actions[{index}]"
        for word in reaction.when.rules:
            if "" not in codes and not any(code.startswith(word) for code in codes):
                hint = nearest(word, [*codes, *families])
                raise ConfigError(f"{where}.when.rules has {word!r}, which is not a rule{hint}")
        for name in reaction.do:
            targets[reaction.name, name] = _made(name, reaction.settings.get(name), where)
    return found, targets


def _made(name: str, settings: object, where: str) -> Sequence[Action]:
    try:
        module = registry.load(PACKAGE, name)
    except UnknownNameError as err:
        known = registry.names(PACKAGE)
        raise ConfigError(
            f"{where}.do has {name!r}, which is not an action{nearest(name, known)}; actions: "
            f"{', '.join(known)}"
        ) from err
    made: Sequence[Action] = module.make(settings, where)
    return made


class Reactions:
    """Reacts to the events of one run.

    Args:
        config: configuration of the reactions.
        explains: by rule code, codes of the rules whose findings that rule's findings cause.
        job: job of the run.
        deliveries: receive messages.
        say: prints one line for the user.
    """

    def __init__(
        self,
        config: Config,
        explains: Mapping[str, frozenset[str]],
        job: Job,
        deliveries: Deliveries,
        say: Callable[[str], None],
    ) -> None:
        self._reactions, self._targets = load_reactions(config)
        self._alerts = Alerts(explains)
        self._router = Router(self._reactions, self._alerts)
        self._job, self._deliveries, self._say = job, deliveries, say

    @property
    def senders(self) -> list[tuple[str, str, Action]]:
        """Return the targets of messages: name of reaction and action, and the action."""
        return [(*key, each) for key, made in self._targets.items() for each in made]

    def look(self, now: Glance, *, acts: bool = True) -> list[Event]:
        """React to new events; return them.

        Args:
            now: current state of the run.
            acts: whether actions may affect the job; False for findings of an earlier attempt,
                which are only reported.
        """
        events = self._alerts.look(now)
        is_running = now.state == "running"
        for call in self._router.route(events, now.now_s, is_running=is_running):
            self._react(call, now.id, acts=acts)
        return events

    def _react(self, call: Call, run: str, *, acts: bool) -> None:
        if call.is_repeated:
            return
        for name in call.reaction.do:
            for action in self._targets[call.reaction.name, name]:
                if not action.is_message:
                    if call.is_reminder:
                        continue
                    key = (call.reaction.name, name, action.target, call.event, run)
                    if acts and self._deliveries.once(*key):
                        self._act(call, action)
                else:
                    self._deliveries.send(call.reaction.name, name, action, call.event, run)

    def _act(self, call: Call, action: Action) -> None:
        try:
            done = action.run(call.event, self._job, "")
        except ActionError as err:
            self._say(f"mothtrap: {action.label} ({call.reaction.name}) failed: {err}")
        except Exception as err:  # of an action of another distribution
            self._say(f"mothtrap: {action.label} failed with {type(err).__name__}")
        else:
            if done:
                self._say(f"mothtrap: {call.reaction.name}: {done} ({call.event.text})")


def planned(
    config: Config, explains: Mapping[str, frozenset[str]], now: Glance
) -> Iterable[tuple[Event, list[str]]]:
    """Yield the events of a stored run, with the reactions and actions of each."""
    found, _ = load_reactions(config)
    alerts = Alerts(explains)
    router = Router(found, alerts)
    events = alerts.look(now)
    alerts.held_s = dict.fromkeys(alerts.held_s, float("inf"))  # its duration is not stored
    calls = router.route(events, now.now_s)
    for event in events:
        own = [call for call in calls if call.event.key == event.key]
        words = [
            f"{call.reaction.name}: {', '.join(call.reaction.do)}"
            + " (not sent again: its root cause was already reported)" * call.is_repeated
            for call in own
        ]
        yield event, words
