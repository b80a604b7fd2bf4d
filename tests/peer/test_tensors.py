"""Tensors by name, expression, collection, step, mode and worker; missing ones are reported."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.peer.trainings import UNJUDGED, job, steps_of_worker, trained
from torch import nn

import mothtrap
from mothtrap import Collection, Run, Schedule, Watch
from mothtrap.core.errors import DamagedDataError, StepUnavailableError, UnknownNameError

COLLECTIONS = {
    "gradients": Collection(every=2),
    "head": Collection(tensors=("weights:2.*", "biases:2.*"), raw=True, every=3),
    "seen": Collection(tensors=("activations:1",), modes=(), eval=Schedule()),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    def each(step: int, model: nn.Module, dbg: Watch) -> None:
        if step == 3:
            with torch.no_grad():
                model(torch.randn(2, 4))

    folder = tmp_path_factory.mktemp("runs")
    return trained(folder, 6, each, collections=COLLECTIONS, **UNJUDGED)


def names(run: Run, *pattern: str, **filters: object) -> set[str]:
    return {tensor.identity for tensor in run.tensors(*pattern, **filters)}  # type: ignore[arg-type]


HEAD = {"weight:2.weight", "bias:2.bias"}
GRADIENTS = {f"gradient:{name}" for name in ("0.weight", "0.bias", "2.weight", "2.bias")}


def test_by_pattern_and_by_regular_expression(run: Run) -> None:
    assert names(run, "2.*") == HEAD | {"gradient:2.weight", "gradient:2.bias"}
    assert names(run, "gradients:*") == GRADIENTS
    assert names(run, r"re:^(weight|bias):") == HEAD
    assert names(run, r"re:\.bias$") == {"bias:2.bias", "gradient:0.bias", "gradient:2.bias"}
    assert names(run, "nothing.*") == set()


def test_by_kind_and_by_collection(run: Run) -> None:
    assert names(run, kind="gradient") == names(run, collection="gradients") == GRADIENTS
    assert names(run, collection="head") == HEAD
    assert names(run, collection="seen") == {"activation:1"}


def test_by_step_and_mode(run: Run) -> None:
    assert names(run, step=0) == GRADIENTS | HEAD
    assert names(run, step=1) == set()
    assert names(run, step=2) == GRADIENTS
    assert names(run, step=3) == HEAD | {"activation:1"}
    assert names(run, step=3, mode="eval") == names(run, mode="eval") == {"activation:1"}
    assert names(run, mode="train") == GRADIENTS | HEAD


def test_expression_and_collection_hold_together(run: Run) -> None:
    assert names(run, "*.bias", collection="head") == {"bias:2.bias"}
    assert names(run, "re:weight$", kind="gradient", step=2, mode="train", worker=0) == {
        "gradient:0.weight",
        "gradient:2.weight",
    }


def test_unknown_words_are_told_with_the_nearest(run: Run) -> None:
    for filters, words in [
        ({"collection": "haed"}, "no collection 'haed' .did you mean 'head'"),
        ({"kind": "gradiant"}, "no kind 'gradiant'.*did you mean 'gradient'"),
        ({"mode": "evla"}, "no mode 'evla'"),
        ({"worker": 4}, "no worker 4; this run has: 0"),
        ({"pattern": "re:("}, "not a valid regular expression"),
    ]:
        with pytest.raises(UnknownNameError, match=words):
            names(run, **filters)


def test_a_tensor_that_comes_at_some_steps_says_at_which(run: Run) -> None:
    weight = run.tensor("weight:2.weight")
    assert weight.steps().tolist() == [0, 3]
    with pytest.raises(StepUnavailableError, match="the nearest is 3"):
        weight.at(4)


def test_each_worker_says_what_it_has(tmp_path: Path) -> None:
    run = job(tmp_path, steps_of_worker(0, [0, 1, 2], of=2), steps_of_worker(1, [0, 1], of=2))
    tensor = run.tensor("layer1")
    assert tensor.workers == run.workers == (0, 1)
    assert (tensor.steps(worker=0).tolist(), tensor.steps(worker=1).tolist()) == ([0, 1, 2], [0, 1])
    assert names(run, step=2, worker=1) == set()
    with pytest.raises(UnknownNameError, match=r"worker 2 has no .*layer1; workers that have it"):
        tensor.steps(worker=2)


@pytest.mark.full
def test_two_thousand_and_one_workers_open_as_one_run(tmp_path: Path) -> None:
    run = job(tmp_path, *(steps_of_worker(rank, [0, 1], of=2001) for rank in range(2001)))
    assert len(run.workers) == 2001
    assert run.status(1).complete
    assert len(run.tensor("layer1").workers) == 2001


def test_workers_that_are_missing_are_named_and_not_waited_for_at_the_door(tmp_path: Path) -> None:
    run = job(tmp_path, steps_of_worker(0, [0, 1], of=3), steps_of_worker(1, [0, 1], of=3))
    assert run.workers == (0, 1)
    assert run.status(1).missing == (2,)
    assert run.tensor("layer1").history("l2").steps_S.tolist() == [0, 1]


@pytest.mark.parametrize("lost", ["raw", "index", "stats", "events"])
def test_a_file_that_is_gone_is_missed_by_name_and_costs_itself_alone(
    tmp_path: Path, lost: str
) -> None:
    both = Collection(raw=True, statistics=("all",))
    path = trained(tmp_path, 4, collections={"weights": both}).path
    for file in (path / "1" / "w0").glob(f"{lost}-*"):
        file.unlink()
    run = mothtrap.open_run(path)
    if lost == "events":  # the message names the steps that exist
        assert run.steps_of().tolist() == []
        assert run.tensors() == ()
        return
    weight = run.tensor("weight:0.weight")
    if lost == "stats":
        assert weight.at(2).shape == (8, 4)
        assert weight.statistics(2)["count"] == 32  # computed from the values
        words = "4 steps lack tensors because of damage"
    else:
        error = DamagedDataError if lost == "raw" else StepUnavailableError
        with pytest.raises(error):
            weight.at(2)
        assert weight.history("l2").steps_S.tolist() == [0, 1, 2, 3]
        words = "" if lost == "raw" else "4 steps lack raw because of damage"
    assert len(run.scalars("loss")[0].steps_S) == 4
    assert words in "; ".join(run.damage)
