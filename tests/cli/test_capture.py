"""`mothtrap capture`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.stored_run import store_run
from tests.exports.stored import store

from mothtrap.cli import main
from mothtrap.core.collections import Collection
from mothtrap.core.control_requests import CaptureRequest
from mothtrap.session.control_client import unmatched


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store_run(tmp_path / "runs" / "x")


def capture(*args: str) -> Result:
    return CliRunner().invoke(main, ["capture", *args])


@pytest.mark.parametrize("asked", [("--add", "loss"), ("--remove", "nope"), ("--every", "3")])
def test_of_a_run_that_has_ended_nothing_can_be_asked(asked: tuple[str, ...]) -> None:
    done = capture("x", "--add", "losses", *asked)
    assert done.exit_code == 2
    assert "x has finished, so it takes no requests" in done.stderr
    assert "built-in" not in done.stderr


@pytest.mark.parametrize(
    ("pattern", "near"),
    [
        ("gradients:nope.*", "head.weight"),
        ("gradients:haed.*", "head.weight"),
        ("gradients:head.*", None),
        ("gradients", None),
        ("re:gradient:head", None),
        ("re:gradient:haed", "head.weight"),
        ("activations:nope.*", None),
    ],
)
def test_a_pattern_that_matches_nothing_so_far_is_said(
    tmp_path: Path, pattern: str, near: str | None
) -> None:
    path = tmp_path / "runs" / "told"
    store(path)
    request = CaptureRequest(id="a", attempt=1, add={"mine": Collection(tensors=(pattern,))})
    said = unmatched(path, request)
    assert len(said) == (near is not None)
    for sentence in said:
        assert sentence.startswith(f"{pattern!r} matches none of the ")
        assert f"such as {near}" in sentence
