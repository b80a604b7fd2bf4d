"""`mothtrap mute` and `mothtrap ack`: findings by code, name or fingerprint get a mark."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.stored_run import store_run
from tests.report.faulty_run import exploding

from mothtrap.cli import main
from mothtrap.store.marks import read_marks


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with two findings."""
    other = exploding(code="NUM001", name="nonfinite_loss", fingerprint="f2")
    store_run(tmp_path / "r1", findings=(exploding(fingerprint="f1"), other))
    return tmp_path / "r1"


def invoke(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.mark.parametrize("word", ["GRD101", "grd101", "exploding_gradient", "f1"])
def test_a_finding_is_acknowledged_by_any_of_its_names(run: Path, word: str) -> None:
    result = invoke("ack", run, word, "--note", "lowered the rate")
    assert (result.exit_code, result.output) == (0, "r1: GRD101 exploding_gradient acknowledged\n")
    (mark,) = read_marks(run).values()
    assert (mark.fingerprint, mark.kind, mark.note) == ("f1", "acknowledged", "lowered the rate")


def test_several_are_marked_at_once_and_each_once(run: Path) -> None:
    result = invoke("ack", run, "f1", "GRD101", "NUM001")
    assert result.output.count("acknowledged") == 2
    assert read_marks(run).keys() == {"f1", "f2"}


def test_muting_lasts_for_hours_or_for_good_and_is_taken_back(run: Path) -> None:
    assert invoke("mute", run, "f1", "--hours", 2).exit_code == 0
    until_s = read_marks(run)["f1"].until_s
    assert until_s == pytest.approx(time.time() + 7200, abs=60)
    assert invoke("mute", run, "f1").exit_code == 0
    assert (read_marks(run)["f1"].kind, read_marks(run)["f1"].until_s) == ("muted", None)
    assert "unmuted" in invoke("mute", run, "f1", "--off").output
    assert read_marks(run)["f1"].kind == "unmuted"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ack", "RUN", "GRD110"], "did you mean 'GRD101'"),
        (["mute", "RUN", "f1", "--hours", "0"], "0.0 is not in the range"),
        (["mute", "RUN", "f1", "--hours", "-1"], "is not in the range"),
        (["ack", "RUN"], "Missing argument"),
        (["ack", "nowhere", "f1"], "nowhere"),
    ],
)
def test_what_is_wrong_is_named_and_marks_nothing(run: Path, words: list[str], said: str) -> None:
    result = invoke(*(run if word == "RUN" else word for word in words))
    assert result.exit_code == 2
    assert said in result.output
    assert read_marks(run) == {}
