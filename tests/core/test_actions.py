"""Tables of actions: errors are named, and possible secrets are not repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from mothtrap.core.actions import in_job, lasting, masked, reactions
from mothtrap.core.config import Config, environment, load_config, plain
from mothtrap.core.errors import ConfigError

CANARY = "c4n4ry"


def test_a_table_becomes_a_reaction() -> None:
    (one, two) = reactions(
        [
            {"when": {"rules": ["NUM"], "for-steps": 3} | {}, "do": ["stop"]}
            | {"when": {"rules": ["NUM"], "for_steps": 3}},
            {"name": "page", "do": ["notify"], "notify": ["mailto://x"], "cooldown-s": 60},
        ]
    )
    assert (one.name, one.do, one.when.for_steps) == ("stop", ("stop",), 3)
    assert (two.name, two.settings, two.cooldown_s) == ("page", {"notify": ["mailto://x"]}, 60.0)
    assert one.when.kinds == ("opened", "worsened", "reopened")


def test_tables_of_one_name_are_told_apart() -> None:
    assert [r.name for r in reactions([{"do": ["stop"]}] * 2)] == ["stop", "stop-2"]


@pytest.mark.parametrize(
    ("table", "match"),
    [
        ({"when": {}}, r"actions\[0\] needs `do`"),
        ({"do": []}, "needs `do`"),
        ({"do": ["stop"], "whn": {}}, "'actions\\[0\\].whn' \\(did you mean 'when'"),
        ({"do": ["stop"], "when": {"rule": []}}, "did you mean 'rules'"),
        ({"do": ["stop"], "when": {"severity": "eror"}}, "did you mean 'error'"),
        ({"do": ["stop"], "when": {"events": ["open"]}}, "did you mean 'opened'"),
        ({"do": ["stop"], "when": {"states": ["failed"]}}, "did you mean 'rule_failed'"),
        ({"do": ["stop"], "when": {"for_steps": 0}}, "1 step or more"),
        ({"do": ["stop"], "when": {"for_minutes": -1}}, "0 or more"),
        ({"do": ["stop"], "cooldown_s": -1}, "cooldown_s must be 0 or more"),
    ],
)
def test_what_is_wrong_is_named(table: dict[str, object], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        reactions([table])


@pytest.mark.parametrize(
    "line",
    [
        f'actions = "mailto://{CANARY}"',
        f'actions = ["mailto://{CANARY}"]',
        f'[[actions]]\ndo = ["notify"]\nnotfy = ["mailto://{CANARY}"]',
        f'[[actions]]\nnotify = ["mailto://{CANARY}"]',
        f'[[actions]]\ndo = ["stop"]\nwebhook = {{ url = "{CANARY}" }}',
    ],
)
def test_no_error_of_the_file_repeats_an_address(tmp_path: Path, line: str) -> None:
    (tmp_path / "mothtrap.toml").write_text(line)
    with pytest.raises(ConfigError, match=r"mothtrap\.toml") as caught:
        load_config(start=tmp_path, environ={})
    assert CANARY not in str(caught.value)


def test_what_is_kept_and_handed_down_holds_no_secret() -> None:
    table = {
        "do": ["notify", "webhook", "command"],
        "notify": [f"mailto://{CANARY}"],
        "webhook": {"url": "http://x", "secret": CANARY},
        "command": [CANARY],
        "when": {"rules": ["NUM"]},
    }
    config = Config(actions=(table,))
    assert CANARY not in f"{plain(config)} {environment(config)}"
    assert masked([table])[0]["when"] == {"rules": ["NUM"]}


def test_what_a_child_needs_is_handed_down() -> None:
    table = {
        "do": ["function", "stop"],
        "function": {"function": "m:f", "in_job": True},
        "when": {"for_steps": 7},
    }
    kept = masked([table])
    assert in_job(kept) == {"m:f"}
    assert lasting(kept) == {7}
    assert in_job([{"do": ["function"], "function": "m:f"}]) == frozenset()


def test_stop_goes_with_all_workers(tmp_path: Path) -> None:
    (tmp_path / "mothtrap.toml").write_text('workers = "rank0"\n[[actions]]\ndo = ["stop"]\n')
    with pytest.raises(ConfigError, match="`stop` cannot be combined with workers = 'rank0'"):
        load_config(start=tmp_path, environ={})
