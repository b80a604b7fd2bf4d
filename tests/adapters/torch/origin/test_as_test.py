"""Writing a test neither overwrites nor removes existing files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mothtrap.adapters.torch.origin import as_test
from mothtrap.adapters.torch.origin.operations import Localized
from mothtrap.adapters.torch.origin.user_calls import UserCall

CALL = UserCall(
    function="torch.log",
    module=None,
    running=(),
    stack=("train.py:3",),
    args=(torch.zeros(2),),
    kwargs={},
    first_node=0,
)
FOUND = Localized(
    operation="torch.log", module=None, location="train.py:3", sentence="x", call=CALL
)


@pytest.mark.parametrize("there", ["train.py", "train.npz"])
def test_what_is_there_is_left_alone(tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("mine")
    with pytest.raises(as_test.NotWrittenError, match=f"{there} already exists"):
        as_test.write(tmp_path / "train.py", FOUND, "a title")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_a_test_that_does_not_fail_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(as_test, "_fails", lambda *_: False)
    with pytest.raises(as_test.NotWrittenError, match=r"torch\.log does not fail on its own"):
        as_test.write(tmp_path / "test_x.py", FOUND, "a title")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "fails"),
    [("ValueError: a\n  b", True), ("ValueError: a", True), ("KeyError: 'a'", False)],
)
def test_the_failure_that_is_meant_is_known_by_its_type(
    tmp_path: Path, error: str, fails: bool
) -> None:
    draft = tmp_path / "test_x.py"
    draft.write_text(f"def {as_test.TEST}():\n    raise ValueError('a\\nb: c')\n")
    assert as_test._fails(draft, replace(FOUND, error=error)) is fails


def test_a_test_that_fails_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(as_test, "_fails", lambda *_: True)
    said = as_test.write(tmp_path / "test_x.py", FOUND, "a title")
    limit = "it does not test a fix of train.py:3"
    written = f"pytest {tmp_path / 'test_x.py'} (needs test_x.npz in its folder); {limit}"
    assert said.endswith(written)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["test_x.npz", "test_x.py"]
    told = (tmp_path / "test_x.py").read_text()
    assert "In it torch.log gets its inputs" in told
    assert ".npz beside this file" in told
    assert "the test calls only the operation" in told
    assert "It does not test a fix of\ntrain.py:3;" in told
    assert "passes once `operation` below is fixed" in told
