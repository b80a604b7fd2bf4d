"""Base class for tests of an action."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import ClassVar, Literal

import pytest

from mothtrap.core import registry
from mothtrap.core.actions import Action
from mothtrap.core.collections import Collection
from mothtrap.core.errors import ActionError, ConfigError
from mothtrap.core.events import Event
from mothtrap.core.findings import Finding, Severity

WHERE = "configuration: actions[0]"


class FakeJob:
    """A job that records the requests it receives.

    Attributes:
        asked: names of the called methods, with their arguments.
        is_running: whether the job trains.
    """

    def __init__(self, path: Path = Path("runs/r1"), *, is_running: bool = True) -> None:
        self.path, self.is_running = path, is_running
        self.asked: list[tuple[object, ...]] = []

    def stop(self, reason: str, prunes: Literal["", "optuna", "ray"] = "") -> bool:
        """Record the request."""
        self.asked.append(("stop", reason, prunes))
        return True

    def snapshot(self) -> None:
        """Record the request."""
        self.asked.append(("snapshot",))

    def capture(self, add: Mapping[str, Collection], for_steps: int | None) -> None:
        """Record the request."""
        self.asked.append(("capture", dict(add), for_steps))

    def call(self, function: str, event: Event) -> None:
        """Record the request."""
        self.asked.append(("call", function, event))


def finding_event(message: str = "the loss is NaN", layer: str = "head") -> Event:
    """Return an event for a newly opened finding."""
    finding = Finding(
        code="NUM001",
        name="nonfinite_loss",
        severity=Severity.ERROR,
        step=5,
        detected_step=6,
        layers=(layer,),
        message=message,
        fixes=("Lower the learning rate.",),
        fingerprint="f00d",
    )
    return Event(
        key="opened/f00d/1",
        kind="opened",
        run="r1",
        path="runs/r1",
        attempt=1,
        time_s=1.7e9,
        step=5,
        text=message,
        finding=finding,
        next="mothtrap show runs/r1",
    )


class ActionTests:
    """Tests for an action.

    Derive a test class from it::

        class TestPager(ActionTests):
            name = "pager"
            secrets = ("s3cr3t",)

            def good(self):
                yield "https://pager.example/s3cr3t"

            def bad(self):
                yield 7

    Attributes:
        name: name of the module in `mothtrap.actions`, or of the entry point.
        secrets: secrets in the good and bad settings, which must never be printed.
    """

    name: ClassVar[str]
    secrets: ClassVar[tuple[str, ...]] = ()

    def good(self) -> Iterable[object]:
        """Return valid settings; None means no settings."""
        raise NotImplementedError("return settings that the action accepts")

    def bad(self) -> Iterable[object]:
        """Return invalid settings."""
        raise NotImplementedError("return settings that the action must refuse")

    @property
    def module(self) -> ModuleType:
        """Module of the action, as mothtrap loads it."""
        return registry.load("mothtrap.actions", self.name)

    def test_good_settings_make_actions_with_labels(self) -> None:
        """Each target makes one action with a distinct `target` that contains no secret."""
        for settings in self.good():
            made = self._made(settings)
            assert made, "no action was made"
            assert len({action.target for action in made}) == len(made), "targets are not unique"
            for action in made:
                assert action.label, "the action has no label"
                assert isinstance(action.is_message, bool)
                self._holds_no_secret(f"{action.label} {action.target} {action!r}")

    def test_bad_settings_are_refused_before_the_job_starts(self) -> None:
        """Invalid settings raise `ConfigError`, which names the setting and contains no secret."""
        for settings in self.bad():
            with pytest.raises(ConfigError) as caught:
                self._made(settings)
            assert WHERE in str(caught.value) or self.name in str(caught.value)
            self._holds_no_secret(str(caught.value))

    def test_a_job_that_has_ended_is_left_alone(self) -> None:
        """An action on a job does nothing after the job has ended."""
        for settings in self.good():
            for action in self._made(settings):
                if not action.is_message:
                    job = FakeJob(is_running=False)
                    action.run(finding_event(), job, "d1")
                    assert job.asked == []

    def test_hostile_texts_do_no_harm(self) -> None:
        """Control characters, markup, and long texts in names and messages do no harm."""
        for settings in self.good():
            for action in self._made(settings):
                for text in HOSTILE:
                    try:
                        action.run(finding_event(text, text), FakeJob(), "d2")
                    except ActionError as err:
                        self._holds_no_secret(str(err))

    def _made(self, settings: object) -> list[Action]:
        return list(self.module.make(settings, WHERE))

    def _holds_no_secret(self, text: str) -> None:
        for secret in self.secrets:
            assert secret not in text, f"a secret is shown: {text}"


HOSTILE = (
    "line\nbreak\r\nBcc: everyone@example.com",
    "\x1b]0;title\x07\x00",
    "</script><script>alert(1)</script>",
    "$(touch /tmp/owned); `id` && rm -rf x",
    "%s %n {0} {secret}",
    "\ud800 lone surrogate",
    "x" * 1_000_000,
)
