"""A step is tried in copies of the process, each of which returns its result."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mothtrap.adapters.torch.origin import trials
from mothtrap.adapters.torch.origin.trials import GoOn, Trials
from mothtrap.core import jsonable
from mothtrap.core.replays import ReplayPlan, ReplayResult
from mothtrap.tracing.snapshots.outcome import Outcome


@pytest.fixture
def outcome(tmp_path: Path) -> Outcome:
    return Outcome(ReplayPlan(step=0, workers={}, scratch=str(tmp_path)), 0)


def tried(outcome: Outcome, losses: tuple[float, ...], *, many: Trials) -> ReplayResult | None:
    """Return the report of a copy that continues a script with the given losses."""
    try:
        return many.run(lambda: None)
    except GoOn:
        outcome.finish(ReplayResult(reached=True, losses=losses))


def test_a_copy_hands_back_its_result_and_ends(outcome: Outcome, tmp_path: Path) -> None:
    many, own = Trials(outcome), os.getpid()
    for number in (1.0, 2.0):
        result = tried(outcome, (number,), many=many)
        assert result is not None
        assert (result.reached, result.losses) == (True, (number,))
    assert os.getpid() == own
    assert outcome.pipe is None
    assert list(tmp_path.iterdir()) == []


def test_a_copy_that_dies_says_nothing(outcome: Outcome) -> None:
    many = Trials(outcome)
    try:
        assert many.run(lambda: None) is None
    except GoOn:
        os._exit(1)


def test_there_is_an_end_of_trials(outcome: Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "MAX_TRIALS", 0)
    assert Trials(outcome).run(lambda: None) is None


def test_a_result_is_written_by_the_rank_and_the_process_ends(
    outcome: Outcome, tmp_path: Path
) -> None:
    pid = os.fork()
    if not pid:
        outcome.note("something differs")
        outcome.finish(ReplayResult(reached=True, losses=(float("nan"),)))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    [path] = tmp_path.iterdir()
    assert path.name == "0-result.json"
    result = jsonable.decode(path.read_bytes(), ReplayResult)
    assert result.notes == ("something differs",)
    assert result.losses[0] != result.losses[0]
