"""Trainings of several processes: every worker or one, and processes that were not announced."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.harness.running import MOTHTRAP, environment, run
from tests.peer.trainings import UNJUDGED, classifier, trained
from torch import nn

import mothtrap
from mothtrap import Collection, Run

SCRIPT = """
import multiprocessing, os, sys
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

kept = []

def train(rank):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    if sys.argv[1] == "together":
        os.environ.update(RANK=str(rank), WORLD_SIZE="2")
        dist.init_process_group("gloo", "file://" + os.path.abspath("met"), None, 2, rank)
        model = DistributedDataParallel(model)
        kept.append(model)  # freed while gloo's threads run, a model can wait for them for ever
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for step in range(4):
        loss = nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(3, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if sys.argv[1] == "together":
        dist.destroy_process_group()

if __name__ == "__main__":
    processes = [multiprocessing.Process(target=train, args=(rank,)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    sys.exit(max(process.exitcode for process in processes))
"""


def observed(folder: Path, how: str, **settings: str) -> Run:
    """Train in two processes under `mothtrap run`, with all weights kept."""
    (folder / "train.py").write_text(SCRIPT)
    command = [*MOTHTRAP, "run", "--name", "job", "train.py", how]
    kept = {"MOTHTRAP_COLLECTIONS": '{"weights": {"raw": true}}', "MOTHTRAP_OVERHEAD": "0"}
    env = environment(OMP_NUM_THREADS="1", **kept, **settings)
    done = run(command, cwd=folder, env=env)
    assert done.returncode == 0, done.stderr
    return mothtrap.open_run("job", folder / "runs")


@pytest.mark.parametrize(("setting", "workers"), [("all", (0, 1)), ("rank0", (0,))])
def test_all_workers_are_captured_or_the_first(
    tmp_path: Path, setting: str, workers: tuple[int, ...]
) -> None:
    run = observed(tmp_path, "together", MOTHTRAP_WORKERS=setting)
    assert (run.workers, run.state) == (workers, "finished")
    assert all(run.status(step).complete for step in range(4))
    weight = run.tensor("weight:weight")
    values = [[a.tobytes() for _, a in weight.values(worker=rank)] for rank in workers]
    assert len(values[0]) == 4
    assert all(each == values[0] for each in values)
    assert min(run.table("steps").column("wall_s").to_pylist()) > 0
    for rank in workers:
        assert min(run.scalars("step_s", worker=rank)[0].values_S) >= 0


def test_processes_that_no_one_announced_are_workers_of_their_own(tmp_path: Path) -> None:
    run = observed(tmp_path, "apart")
    assert run.workers == (0, 1)
    for worker in run.workers:
        assert run.scalars("loss", worker=worker)[0].steps_S.tolist() == [0, 1, 2, 3]
        assert run.tensor("weight:weight").steps(worker=worker).tolist() == [0, 1, 2, 3]


def test_a_data_parallel_model_is_seen_as_the_model_inside(tmp_path: Path) -> None:
    model = nn.DataParallel(classifier())
    chosen = {"weights": Collection(raw=True), "activations": Collection(raw=True)}
    run = trained(tmp_path, 4, model=model, collections=chosen, **UNJUDGED)
    names = {tensor.identity for tensor in run.tensors()}
    assert {"weight:0.weight", "weight:2.weight", "activation:1", "activation:2"} <= names
    assert not any("module." in name for name in names)
    assert run.tensor("weight:2.weight").steps().tolist() == [0, 1, 2, 3]
