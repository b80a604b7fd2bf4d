"""A statement is detected before it reads its inputs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from mothtrap.adapters.torch.replaying.fitting import set_variables
from mothtrap.tracing.snapshots.anticipation import Anticipation, statement_lines
from mothtrap.tracing.source import syntax

LOOP = """\
def train(model):
    losses = []
    for epoch in range(2):
        weight = 1.0 / (1 + epoch)
        loss = (
            weight
            * model(epoch)
        )
        losses.append(loss)
    return losses
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "loop.py"
    path.write_text(LOOP)
    return path


@pytest.fixture
def untraced() -> Iterator[None]:
    """Disable coverage, which also traces lines."""
    before = sys.gettrace()
    sys.settrace(None)
    yield
    sys.settrace(before)


def test_the_lines_of_a_statement_are_known(script: Path) -> None:
    assert statement_lines(str(script), 7) == range(5, 9)
    assert statement_lines(str(script), 4) == range(4, 5)
    assert statement_lines(str(script), 3) == range(3, 4)
    assert statement_lines(str(script / "absent"), 7) == range(7, 8)


def test_of_a_file_above_the_limit_the_line_itself_is_known(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syntax, "MOST_BYTES", 10)
    assert statement_lines(str(script), 7) == range(7, 8)


@pytest.mark.usefixtures("untraced")
def test_a_variable_is_set_before_the_statement_reads_it(script: Path) -> None:
    space: dict[str, Any] = {}
    exec(compile(LOOP, str(script), "exec"), space)
    seen = []

    def begins(frame: FrameType) -> None:
        seen.append(frame.f_lineno)
        set_variables(frame, {"weight": 10.0, "new": 1}, own=True)

    following = Anticipation(lambda: f"{script}:7", begins)
    following.start()
    try:
        losses = space["train"](lambda _: 1.0)
    finally:
        following.stop()
    assert set(seen) <= {5, 6, 7}
    assert losses == [10.0, 10.0]


@pytest.mark.usefixtures("untraced")
def test_nothing_is_followed_where_no_call_is_expected_or_another_follows(
    script: Path,
) -> None:
    space: dict[str, Any] = {}
    exec(compile(LOOP, str(script), "exec"), space)
    seen: list[FrameType] = []
    following = Anticipation(lambda: None, seen.append)
    following.start()
    space["train"](lambda _: 1.0)
    following.stop()
    assert seen == []
    sys.settrace(lambda *_: None)
    other = Anticipation(lambda: f"{script}:7", seen.append)
    other.start()
    assert not other.active
