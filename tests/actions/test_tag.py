"""The action `tag` tags the run, once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mothtrap.actions import tag
from mothtrap.core.errors import ActionError
from mothtrap.store.labels import read_labels
from mothtrap.testing.actions import WHERE, ActionTests, FakeJob, finding_event


@pytest.fixture(autouse=True)
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the run of a `FakeJob`."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "r1"
    folder.mkdir(parents=True)
    return folder


class TestTag(ActionTests):
    name = "tag"

    def good(self) -> Iterator[object]:
        yield "diverged"
        yield ["diverged", "look", " look"]

    def bad(self) -> Iterator[object]:
        yield None
        yield ""
        yield ["diverged", 7]
        yield {"tags": "diverged"}
        yield "x" * 101


def _tag(*tags: str, is_running: bool = True) -> list[str]:
    job = FakeJob(is_running=is_running)
    return [each.run(finding_event(), job, "") for each in tag.make(list(tags), WHERE)]


def test_the_run_is_tagged_once_also_after_the_job(run: Path) -> None:
    assert _tag("diverged", "look") == ["tagged the run 'diverged'", "tagged the run 'look'"]
    assert _tag("look", "new", is_running=False) == ["", "tagged the run 'new'"]
    assert read_labels(run).tags == ("diverged", "look", "new")


def test_a_run_that_is_gone_is_said_so(run: Path) -> None:
    run.rmdir()
    with pytest.raises(ActionError, match="cannot be tagged: No such file"):
        _tag("diverged")
