"""A command gets the event as JSON, no shell and a limited time."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mothtrap.actions import command
from mothtrap.core.errors import ActionError, DeliveryError
from mothtrap.testing.actions import WHERE, ActionTests, FakeJob, finding_event


class TestCommand(ActionTests):
    name = "command"
    secrets = ("t0ken",)

    def good(self) -> Iterator[object]:
        yield [sys.executable, "-c", "import sys; sys.stdin.read()", "t0ken"]

    def bad(self) -> Iterator[object]:
        yield None
        yield "sh t0ken"
        yield []
        yield ["sh", 7]
        yield {"command": ["t0ken"], "timeout_s": -1}
        yield {"command": ["t0ken"], "shell": True}


def _run(code: str, *words: str, **more: object) -> str:
    (made,) = command.make({"command": [sys.executable, "-c", code, *words], **more}, WHERE)
    return made.run(finding_event(), FakeJob(), "d1")


def test_the_event_comes_as_json_and_the_delivery_in_the_environment(tmp_path: Path) -> None:
    code = (
        "import os, sys; open(sys.argv[1], 'w').write("
        "os.environ['MOTHTRAP_DELIVERY'] + '\\n' + sys.stdin.read())"
    )
    assert _run(code, str(tmp_path / "got")) == "the command ended with 0"
    delivery, event = (tmp_path / "got").read_text().split("\n", 1)
    assert delivery == "d1"
    assert json.loads(event)["finding"]["name"] == "nonfinite_loss"


def test_its_exit_code_decides_whether_it_is_tried_again() -> None:
    with pytest.raises(DeliveryError, match="try again later"):
        _run("raise SystemExit(75)")
    with pytest.raises(ActionError, match="ended with 9"):
        _run("raise SystemExit(9)")


def test_one_that_hangs_is_ended() -> None:
    with pytest.raises(ActionError, match=r"within 0.3 s"):
        _run("import time; time.sleep(600)", timeout_s=0.3)


def test_one_that_is_not_there_is_said_so() -> None:
    (made,) = command.make(["/no/such/program"], WHERE)
    with pytest.raises(ActionError, match="cannot be started: No such file"):
        made.run(finding_event(), FakeJob(), "d1")
