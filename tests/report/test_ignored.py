"""Settings without effect are reported once, however many workers reported them."""

from __future__ import annotations

from unittest.mock import Mock

from mothtrap.core.facts.captures import SettingIgnored
from mothtrap.report.ignored import ignored, ignored_lines
from mothtrap.report.style import Style


def told(setting: str, reason: str, step: int = 0) -> SettingIgnored:
    return SettingIgnored(step=step, setting=setting, reason=reason)


def lines(*seen: SettingIgnored) -> list[str]:
    return ignored_lines(ignored(Mock(observations=lambda _: seen)), Style())


def test_nothing_is_said_where_every_setting_had_its_effect() -> None:
    assert lines() == []


def test_the_same_reason_of_two_workers_is_one_line() -> None:
    twice = told("digests", "no digests are taken"), told("digests", "no digests are taken", 3)
    other = told("on_nonfinite = skip", "the step is compiled")
    assert lines(*twice, other) == [
        "  digests had no effect: no digests are taken",
        "  on_nonfinite = skip had no effect: the step is compiled",
    ]
