"""What ended a process is told with the user's line."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

from mothtrap.session.ending import uncaught


def raised(script: Path) -> BaseException:
    with pytest.raises(json.JSONDecodeError) as caught:
        runpy.run_path(str(script))
    return caught.value


def test_the_line_is_the_users_not_that_of_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "train.py"
    script.write_text("import json\n\njson.loads('{')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "last_value", raised(script), raising=False)
    error, place = uncaught()
    assert error is not None
    assert error.startswith("JSONDecodeError: ")
    assert place == "train.py:3"
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    assert uncaught() == (None, None)


def test_without_an_exception_there_is_nothing_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys, "last_value", raising=False)
    assert uncaught() == (None, None)
