"""Steps replayed between an earlier state and the requested step are the same as in the run."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import torch
from tests.harness.running import PYTHON, environment, observed, run
from tests.replay.test_loops import LOOPS, told
from torch import nn

from mothtrap.adapters.torch.replaying.played import PlayedStep
from mothtrap.core.snapshots import RecordedStep
from mothtrap.snapshot.format import folder_of, load, write


@pytest.mark.parametrize("skipped", [False, True])
def test_what_the_run_left_out_is_undone(skipped: bool) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    before = model.weight.detach().clone()
    played = PlayedStep()
    rates = {"SGD": (0.5,)}
    played.begin(RecordedStep(step=1, events=(), optimizers=("SGD",), skipped=skipped, rates=rates))
    assert played.awaits("SGD")
    model(torch.full((1, 2), torch.nan)).sum().backward()
    played.applies(optimizer, "SGD")
    optimizer.step()
    played.ended("SGD")
    assert not played.awaits("SGD")
    assert optimizer.param_groups[0]["lr"] == 0.5
    assert torch.equal(model.weight, before) is skipped
    assert bool(optimizer.state) is not skipped


def test_all_optimizers_of_a_step_play_it_and_none_plays_one_that_was_left_out(
    tmp_path: Path,
) -> None:
    loaded = []
    for step in (4, 6):  # a deterministic script gives its arrays the same names in every run
        words = ["--on-nonfinite", "skip", "--", *PYTHON, "two_optimizers.py"]
        words = observed(words, runs_dir=tmp_path / str(step), name="seen")
        outcome = run(words, cwd=LOOPS, env=environment(MOTHTRAP_SNAPSHOT_AT=str(step)))
        assert outcome.returncode == 0, outcome.stderr
        path = tmp_path / str(step) / "seen"
        loaded.append(load(folder_of(path, step, 0)))
    loaded.insert(1, load(folder_of(path, 5, 0)))  # kept automatically
    steps = [
        msgspec.structs.replace(
            one.snapshot.steps[-1], optimizers=("SGD", "Adam"), skipped=one is loaded[1]
        )
        for one in loaded
    ]  # as they are in the ring
    joined = msgspec.structs.replace(
        loaded[-1].snapshot, state_step=4, state=loaded[0].snapshot.state, steps=tuple(steps)
    )
    arrays = {key: array for one in loaded for key, array in one.steps.items()}
    write(loaded[-1].folder, joined, loaded[0].state, arrays)
    again = told(path, "--step", "6")
    assert (again["step"], again["match"]) == (6, True), again
