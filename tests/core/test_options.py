"""Options that adapters use are recognized where a user sets them, and only there."""

from __future__ import annotations

from typing import Any

import pytest

from mothtrap.core import options
from mothtrap.core.config import Config


def test_the_defaults_ask_for_nothing() -> None:
    assert options.asked(Config()) == {}


@pytest.mark.parametrize(
    ("settings", "option", "text"),
    [
        ({"on_nonfinite": "stop"}, "on_nonfinite", "on_nonfinite = stop"),
        ({"max_gradient_norm": 0.5}, "max_gradient_norm", "max_gradient_norm = 0.5"),
        ({"snapshot_at": (3,)}, "snapshots", "snapshot_at"),
        ({"snapshot_every": 3}, "snapshots", "snapshot_every"),
        ({"replay_at_end": True, "snapshot_at": (1,)}, "snapshots", "snapshot_at, --replay"),
        ({"digests": True}, "digests", "digests"),
        ({"redact": ("label",)}, "redact", "redact"),
    ],
)
def test_what_is_asked_for_reads_as_the_user_wrote_it(
    settings: dict[str, Any], option: options.Option, text: str
) -> None:
    assert options.asked(Config(**settings)) == {option: text}


def test_every_option_has_a_reason_that_names_the_framework() -> None:
    assert options.NO_EFFECT.keys() == options.EVERY
    assert all("{}" in reason for reason in options.NO_EFFECT.values())
