"""Steps of a run: of which workers, in which mode, and as of which time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.peer.trainings import job, steps_of_worker, trained
from tests.reader.runs import evaluation, write_worker
from tests.store.records import record
from torch import nn

import mothtrap
from mothtrap import Collection, Watch
from mothtrap.core.errors import StepNotYetError, StepUnavailableError, UnknownNameError
from mothtrap.core.runs import RunEnd
from mothtrap.core.tensors import TensorInfo
from mothtrap.reader.series.steps import StepState
from mothtrap.store import layout

LETTERS = {StepState.AVAILABLE: "A", StepState.UNAVAILABLE: "U", StepState.NOT_YET: "N"}
GONE: tuple[int, ...] = (-1,)  # appended to the steps of a worker whose process is gone
CLOSED: tuple[int, ...] = (-2,)  # appended to those of a worker that ended normally
MANY = tuple(range(12))

# Steps that each worker captured; A available, U unavailable, N not yet, from step 0 on.
RUNNING = {
    "no worker yet": ([()], "NN"),
    "one worker": ([(0, 1, 2)], "AAAN"),
    "one worker, saved every other step": ([(0, 2)], "AUAN"),
    "one worker, saved from the third step on": ([(2, 3)], "UUAAN"),
    "one worker that closed": ([(0, 1, *CLOSED)], "AAU"),
    "one worker that is gone": ([(0, 1, *GONE)], "AAU"),
    "three workers in step": ([(0, 1), (0, 1), (0, 1)], "AAN"),
    "three workers, one behind": ([(0, 1, 2), (0, 1, 2), (0, 1)], "AANN"),
    "three workers, all apart": ([(0, 1, 2), (0, 1), (0,)], "ANNN"),
    "three workers, one skipped a step": ([(0, 1, 2), (0, 2), (0, 1, 2)], "AAAN"),
    "three workers, all skipped a step": ([(0, 2), (0, 2), (0, 2)], "AUAN"),
    "three workers, one has not begun": ([(0, 1), (0, 1), ()], "NNN"),
    "three workers, one never began": ([MANY, MANY, ()], "A" * 12 + "N"),
    "three workers, one is gone": ([(0, 1, 2), (0, 1, 2), (0, *GONE)], "AAAN"),
    "three workers, one closed early": ([(0, 1, 2), (0, 1, 2), (0, *CLOSED)], "AAAN"),
}
ENDED = {
    "no worker": ([()], "UU"),
    "one worker": ([(0, 1, 2)], "AAAU"),
    "one worker, saved every other step": ([(0, 2)], "AUAU"),
    "three workers": ([(0, 1), (0, 1), (0, 1)], "AAU"),
    "three workers, one behind": ([(0, 1, 2), (0, 1, 2), (0, 1)], "AAAU"),
    "three workers, one never began": ([(0, 1), (0, 1), ()], "AAU"),
}
SCENARIOS = [
    *[(False, *scenario) for scenario in RUNNING.values()],
    *[(True, *scenario) for scenario in ENDED.values()],
]
NAMES = [*[f"running: {name}" for name in RUNNING], *[f"ended: {name}" for name in ENDED]]


@pytest.mark.parametrize(("ended", "workers", "expected"), SCENARIOS, ids=NAMES)
def test_every_step_is_available_unavailable_or_not_yet_there(
    tmp_path: Path, ended: bool, workers: list[tuple[int, ...]], expected: str
) -> None:
    written = []
    for rank, numbers in enumerate(workers):
        steps = [number for number in numbers if number >= 0]
        dead, closed = numbers[-1:] == GONE, numbers[-1:] == CLOSED
        of = len(workers)
        written.append(
            steps_of_worker(rank, steps, of=of, dead=dead, closed=closed) if steps else []
        )
    run = job(tmp_path, *written, ended=ended)
    statuses = [run.status(step) for step in range(len(expected))]
    assert "".join(LETTERS[status.state] for status in statuses) == expected
    for step, status in enumerate(statuses):
        assert status.workers == tuple(r for r, steps in enumerate(workers) if step in steps)


def test_the_last_complete_step_is_that_which_all_workers_have(tmp_path: Path) -> None:
    run = job(tmp_path, *[steps_of_worker(r, range(5 - r), of=3) for r in range(3)])
    complete = [step for step in run.steps_of().tolist() if run.status(step).complete]
    assert complete == [0, 1, 2]
    assert run.status(4).missing == (1, 2)


def test_evaluations_have_states_of_their_own(tmp_path: Path) -> None:
    records = steps_of_worker(0, [0, 1])
    run = job(tmp_path, [*records, evaluation(2, 0), evaluation(2, 1)])
    states = [LETTERS[run.status(step, "eval").state] for step in range(4)]
    assert states == ["U", "U", "A", "N"]
    assert LETTERS[run.status(2).state] == "N"


def test_modes_translate_to_the_steps_of_the_job_in_a_training(tmp_path: Path) -> None:
    evaluated: list[int] = []

    def each(step: int, model: nn.Module, dbg: Watch) -> None:
        if step in (2, 5):  # an evaluation of two batches before steps 2 and 5 are applied
            with torch.no_grad():
                for _ in range(2):
                    model(torch.randn(3, 4))
                    evaluated.append(step)

    outputs = Collection(tensors=("activations:2",), modes=("train", "eval"))
    run = trained(tmp_path, 8, each, collections={"outputs": outputs})
    timeline = run.timeline
    assert run.modes == ("train", "eval")
    assert run.steps_of("train").tolist() == list(range(8))
    assert run.steps_of("eval").tolist() == [2, 5]
    assert [timeline.step_of("eval", n) for n in range(4)] == evaluated
    assert [timeline.step_of("train", n) for n in range(8)] == list(range(8))
    assert [(key.mode, key.mode_step) for key in timeline.keys_at(5)] == [
        ("eval", 2),
        ("eval", 3),
        ("train", 5),
    ]
    assert run.tensor("activation:2").steps("eval").tolist() == [2, 5]
    with pytest.raises(StepUnavailableError, match="captured are 0 to 3"):
        timeline.step_of("eval", 4)


def test_steps_are_waited_for_while_the_job_makes_them(tmp_path: Path) -> None:
    states: list[Any] = []

    def each(step: int, model: nn.Module, dbg: Watch) -> None:
        if step == 4:
            assert dbg.path is not None
            run = mothtrap.open_run(dbg.path)
            states.append(run.wait_for(2, timeout_s=30).state)
            states.append(run.status(1000).state)
            states.append(run.state)

    run = trained(tmp_path, 6, each)
    assert states == [StepState.AVAILABLE, StepState.NOT_YET, "running"]
    assert run.state == "finished"
    assert run.status(1000).state is StepState.UNAVAILABLE


def test_new_steps_and_new_tensors_appear_in_a_live_run(tmp_path: Path) -> None:
    run = job(tmp_path, [])
    log = write_worker(run.path / "1", *steps_of_worker(0, [0, 1]), seal=False)
    run.refresh()
    assert run.steps_of().tolist() == [0, 1]
    known = {tensor.name for tensor in run.tensors()}
    late = (7, TensorInfo(kind="weight", name="late", shape=(2,)))
    log.append([record(2, tensors=0, defined=(late,)), record(3)])
    assert run.steps_of().tolist() == [0, 1]  # until it is refreshed
    run.refresh()
    assert run.steps_of().tolist() == [0, 1, 2, 3]
    assert {tensor.name for tensor in run.tensors()} - known == {"late"}
    log.close()


def test_a_range_never_shows_a_later_step(tmp_path: Path) -> None:
    run = job(tmp_path, [])
    log = write_worker(run.path / "1", *steps_of_worker(0, range(3)), seal=False)
    view = run.range(0, 5)
    for step in range(3, 12):
        log.append([replace(record(step), defined=())])
        view.refresh()
        assert max(view.steps_of()) == min(step, 4)
        (tensor, *_) = view.tensors()
        assert max(tensor.history("l2").steps_S) == max(tensor.steps()) == min(step, 4)
        assert max(view.scalars("loss")[0].steps_S) == min(step, 4)
    with pytest.raises(StepUnavailableError, match="outside of this view"):
        view.wait_for(5, timeout_s=0)
    log.close()


def test_a_frozen_run_stands_still_and_goes_on_afterwards(tmp_path: Path) -> None:
    run = job(tmp_path, [])
    log = write_worker(run.path / "1", *steps_of_worker(0, [0, 1]), seal=False)
    run.refresh()
    with run.frozen():
        log.append([replace(record(2), defined=())])
        run.refresh()
        assert run.steps_of().tolist() == [0, 1]
        with run.frozen():
            run.range(1).refresh()
        run.refresh()
        assert run.steps_of().tolist() == [0, 1]
        with pytest.raises(StepNotYetError, match="frozen"):
            run.wait_for(2)
    run.refresh()
    assert run.steps_of().tolist() == [0, 1, 2]
    log.close()


def test_an_error_in_a_frozen_block_thaws_the_run(tmp_path: Path) -> None:
    run = job(tmp_path, [])
    log = write_worker(run.path / "1", *steps_of_worker(0, [0]), seal=False)
    with pytest.raises(LookupError), run.frozen():
        run.tensor("nothing")
    run.refresh()
    assert run.steps_of().tolist() == [0]
    log.close()


def test_waiting_does_not_freeze_the_run(tmp_path: Path) -> None:
    run = job(tmp_path, [])
    log = write_worker(run.path / "1", *steps_of_worker(0, [0, 1]), seal=False)
    assert run.wait_for(1, timeout_s=30).complete
    log.append([replace(record(2), defined=())])
    run.refresh()
    assert run.steps_of().tolist() == [0, 1, 2]
    log.close()


def test_following_ends_quietly_with_the_job(tmp_path: Path) -> None:
    run = job(tmp_path, steps_of_worker(0, [0, 1, 3], closed=True), ended=True)
    assert [status.key.step for status in run.follow()] == [0, 1, 3]
    assert run.state == "finished"


def test_what_is_not_there_has_an_error_of_its_own(tmp_path: Path) -> None:
    run = job(tmp_path, steps_of_worker(0, [0, 1, 3]))
    with pytest.raises(UnknownNameError, match=r"there is no tensor 'layer9'.*did you mean"):
        run.tensor("layer9")
    tensor = run.tensor("layer1")
    with pytest.raises(StepUnavailableError, match="raw = true"):
        tensor.at(1)
    with pytest.raises(StepNotYetError, match="has not reached it"):
        tensor.at(9)
    with pytest.raises(StepUnavailableError, match="the job has passed it"):
        run.wait_for(2, timeout_s=30)
    with pytest.raises(StepNotYetError, match="was not recorded within 0 s"):
        run.wait_for(9, timeout_s=0)
    layout.write_end(run.path / "1", RunEnd(exit_code=0, ended_s=1.0))
    run.refresh()
    with pytest.raises(StepUnavailableError, match="the job has ended") as error:
        run.wait_for(9, timeout_s=30)
    assert not isinstance(error.value, StepNotYetError)
