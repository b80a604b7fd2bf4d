"""`mothtrap actions`: expected events, a test message, and error messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.actions.servers import free_port, web_server
from tests.cli.stored_run import store_run
from tests.report.faulty_run import exploding

from mothtrap.cli import main

CANARY = "c4n4ry"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store_run(tmp_path / "runs" / "r1", findings=(exploding(),))


def configure(text: str) -> None:
    Path("mothtrap.toml").write_text(text)


def invoke(*words: str) -> Result:
    result = CliRunner().invoke(main, ["actions", *words])
    assert CANARY not in result.output
    return result


def test_it_says_what_each_finding_calls_for() -> None:
    configure('[[actions]]\nwhen = { rules = ["GRD"] }\ndo = ["snapshot", "stop"]\n')
    printed = invoke("r1").output.splitlines()
    place = next(i for i, line in enumerate(printed) if line.startswith("opened: GRD101"))
    assert printed[place + 1].startswith("  -> snapshot+stop: ")


def test_it_says_that_a_finding_calls_for_nothing() -> None:
    configure('[[actions]]\nwhen = { rules = ["NUM"] }\ndo = ["stop"]\n')
    assert "  -> nothing" in invoke("r1").output.splitlines()


def test_a_test_message_is_sent_by_the_named_table() -> None:
    with web_server() as server:
        configure(
            f'[[actions]]\nname = "page"\ndo = ["snapshot", "webhook"]\n'
            f'webhook = "{server.url}/{CANARY}"\n'
            f'[[actions]]\nname = "other"\ndo = ["webhook"]\nwebhook = "{server.url}/other"\n'
        )
        result = invoke("test", "page")
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "snapshot: not a message, so there is nothing to send",
        "webhook: the webhook answered 204",
    ]
    (request,) = server.received
    told = json.loads(request.body)
    assert (told["type"], told["data"]["text"]) == (
        "mothtrap.test",
        "a test message from mothtrap; nothing is wrong",
    )


def test_a_message_that_fails_is_said_and_is_exit_1() -> None:
    configure(f'[[actions]]\ndo = ["webhook"]\nwebhook = "http://127.0.0.1:{free_port()}/{CANARY}"')
    result = invoke("test", "webhook")
    assert result.exit_code == 1
    assert "webhook: failed: the webhook did not answer" in result.output


@pytest.mark.parametrize(
    ("config", "words", "said"),
    [
        ("", ["r1"], "no [[actions]] are configured"),
        ('[[actions]]\ndo = ["stop"]', ["test", "stp"], "did you mean 'stop'"),
        ('[[actions]]\ndo = ["stop"]', ["test"], "tables: stop"),
        (
            '[[actions]]\ndo = ["stop"]',
            ["r1", "stop"],
            "to send a test message: mothtrap actions test stop",
        ),
        ('[[actions]]\ndo = ["stop"]', ["r2"], "r2"),
        ('[[actions]]\ndo = ["stpo"]', ["r1"], "did you mean 'stop'"),
        (f'[[actions]]\ndo = ["webhook"]\nwebhook = "{CANARY}"', ["r1"], "begins with http"),
        ('[[actions]]\nwhen = { rules = ["NOM"] }\ndo = ["stop"]', ["r1"], "NOM"),
    ],
)
def test_what_is_wrong_is_named(config: str, words: list[str], said: str) -> None:
    configure(config)
    result = invoke(*words)
    assert result.exit_code == 2
    assert said in result.output


def test_nothing_is_left_to_send_where_nothing_was_noted() -> None:
    configure('[[actions]]\ndo = ["stop"]')
    result = invoke("r1", "--send")
    assert (result.exit_code, result.output) == (0, "r1: no messages are recorded\n")
