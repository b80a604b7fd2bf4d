"""Ineffective settings are reported once, with the steps that they do not reach."""

from __future__ import annotations

from typing import Any

from mothtrap.core.config import Config
from mothtrap.core.fact import Fact
from mothtrap.core.options import Option
from mothtrap.tracing.jobs.settings import Settings


class Grouper:
    step = 3


def settings(*honored: Option, **asked: Any) -> tuple[Settings, list[str], list[Fact]]:
    said: list[str] = []
    facts: list[Fact] = []
    grouper: Any = Grouper()
    made = Settings(Config(**asked), "toy", grouper, said.append, facts.append)
    made.honored = frozenset(honored)
    return made, said, facts


def test_what_is_not_asked_for_is_not_reported() -> None:
    made, said, facts = settings()
    made.check(0)
    made.no_effect("on_nonfinite", "the step is compiled")
    assert not said
    assert not facts


def test_an_option_that_is_not_honored_is_reported_once() -> None:
    made, said, facts = settings("snapshots", on_nonfinite="raise", snapshot_at=(1,))
    for step in range(3):
        made.check(step)
    sentence = "steps of toy cannot be skipped, and are applied unchanged"
    assert said == [f"mothtrap: on_nonfinite = raise has no effect: {sentence}"]
    assert [fact.step for fact in facts] == [0]


def test_some_steps_that_an_honored_option_does_not_reach_are_reported_for_each_reason() -> None:
    made, said, facts = settings("on_nonfinite", on_nonfinite="skip")
    for why in ("the step is compiled", "it runs on replicas", "the step is compiled"):
        made.no_effect("on_nonfinite", why)
    assert [line.rpartition(": ")[2] for line in said] == [
        "the step is compiled",
        "it runs on replicas",
    ]
    assert [fact.step for fact in facts] == [3, 3]


def test_a_reason_adds_nothing_where_no_step_honors_the_option() -> None:
    made, said, _ = settings(digests=True)
    made.check(0)
    made.no_effect("digests", "the step is compiled")
    assert len(said) == 1
