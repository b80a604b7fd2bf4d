"""The launcher of a node merges its workers, and sends the merged log."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from tests.harness.running import MOTHTRAP, TORCHRUN, environment, run
from tests.reader.runs import info, write_worker
from tests.store.records import record

from mothtrap.core.config import Config
from mothtrap.core.control_requests import DetailsRequest
from mothtrap.core.facts.replicas import ReplicaDigests
from mothtrap.core.facts.stalls import WorkerStalled
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.core.records import Scalar, StepRecord
from mothtrap.reader.run import open_run
from mothtrap.session.node_merging import RING_STEPS, NodeMerger, NodeMerging
from mothtrap.store import layout
from mothtrap.store.control_inbox import new_id, send
from mothtrap.store.manifests import Node
from mothtrap.store.node_log import NodeReader

STARTED = WorkerStarted(
    step=0, rank=4, world_size=8, pid=1, host="h", framework="torch", versions={}
)
SCRIPT = """
import sys, torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.05)
torch.manual_seed(rank)
for step in range(12):
    inputs = torch.randn(8, 4)
    loss = nn.functional.cross_entropy(model(inputs), inputs[:, :2].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 5 and rank == 1:
        with torch.no_grad():
            model.module.weight.mul_(2)
dist.destroy_process_group()
"""


def losses(step: int, *values: float) -> StepRecord:
    scalars = [Scalar("loss", str(place), value) for place, value in enumerate(values)]
    return record(step, scalars=(*scalars, Scalar("step_s", "", 0.5), Scalar("lr", "", 0.1)))


@pytest.fixture
def node() -> Node:
    return Node("0123abcd")


def test_steps_and_chosen_facts_are_merged(tmp_path: Path, node: Node) -> None:
    merger = NodeMerger(tmp_path / "n", node, ["ReplicaDigests"], None)
    digests = ReplicaDigests(step=0, digests={"fc": "a"})
    merger.take(4, record(0, observations=(STARTED, digests)))
    merger.take(5, losses(0, 2.0))
    merger.take_stall(WorkerStalled(step=0, rank=5, waited_s=11.0, at_s=40.0))
    merger.flush(50.0)
    rows = NodeReader(tmp_path / "n").poll()
    assert [(s.rank, s.step, s.loss, s.step_s) for s in rows.steps if s.rank == 5] == [
        (5, 0, 2.0, 0.5)
    ]
    assert [(f.rank, type(f.fact).__name__) for f in rows.facts] == [
        *((4, "WorkerStarted"), (4, "ReplicaDigests")),
        (5, "WorkerStalled"),
    ]
    assert rows.beat_s == 50.0
    assert (node.ranks, node.world_size) == ({4, 5}, 8)


def test_the_first_loss_that_is_not_finite_is_never_dropped(tmp_path: Path, node: Node) -> None:
    merger = NodeMerger(tmp_path / "n", node, (), None)
    for step in range(3 * RING_STEPS):
        merger.take(0, losses(step, 1.0, math.nan if step == 7 else 1.0))
    merger.flush(1.0)
    steps = NodeReader(tmp_path / "n").poll().steps
    assert [s.step for s in steps] == [7, *range(2 * RING_STEPS, 3 * RING_STEPS)]
    assert [s.step for s in steps if s.loss is not None and math.isnan(s.loss)] == [7]


def test_signs_of_life_are_passed_on_at_first_and_while_no_step_comes(
    tmp_path: Path, node: Node
) -> None:
    merger, reader = NodeMerger(tmp_path / "n", node, (), None), NodeReader(tmp_path / "n")
    merger.take(0, record(0))
    began_s = record(0).wall_s
    found = []
    for second in (0, 1, 5):
        merger.take_sign(0, began_s + second)
        merger.flush(began_s + second)
        found.append(reader.poll().signs)
    assert found == [{0: began_s}, {}, {0: began_s + 5}]


def test_a_job_sends_merged_logs_and_the_worker_with_a_finding(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "mothtrap.toml").write_text('workers = "merged"\n')
    url = (tmp_path / "store").as_uri()
    cache = {"MOTHTRAP_CACHE": str(tmp_path / "cache"), "MOTHTRAP_OVERHEAD": "0"}
    torchrun: list[str | Path] = [
        TORCHRUN,
        "--standalone",
        "--nproc-per-node",
        "2",
        tmp_path / "train.py",
    ]
    words: list[str | Path] = [
        *MOTHTRAP,
        "run",
        "--runs-dir",
        url,
        "--name",
        "job",
        "--no-rules",
        "--",
        *torchrun,
    ]
    done = run(words, cwd=tmp_path, env=environment(**cache))
    assert done.returncode == 0, done.stderr
    attempt = tmp_path / "store" / "job" / "1"
    assert (layout.workers(attempt), len(layout.nodes(attempt))) == ([0], 1)
    assert "details of single workers stay in" in done.stderr

    words = [*MOTHTRAP, "monitor", f"{url}/job"]
    followed = run(words, cwd=tmp_path, env=environment(**cache))
    assert followed.returncode == 0, followed.stderr
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("MOTHTRAP_CACHE", cache["MOTHTRAP_CACHE"])
        found = open_run(f"{url}/job")
    diverging = [f for f in found.findings if f.code == "DST951"]
    assert [(f.workers, f.step) for f in diverging] == [((1,), 4)]  # after the last equal one
    (asked,) = (tmp_path / "store" / "job" / "control").iterdir()
    assert '"workers":[1]' in asked.read_text()
    states = found.worker_states
    assert [(s.rank, s.steps, s.state) for s in states.states] == [
        *((0, 12, "ended"), (1, 12, "ended")),
    ]
    assert states.expected == 2


def test_the_log_of_a_worker_is_sent_if_a_monitor_asks_for_it(tmp_path: Path, node: Node) -> None:
    attempt = layout.create_run(tmp_path / "x", info())
    logs = [write_worker(attempt, record(0), seal=False) for _ in range(3)]
    merging = NodeMerging(attempt, Config(workers="merged"), node)
    merging.look()
    assert node.detailed == {0}
    send(attempt.parent, DetailsRequest(id=new_id(), attempt=1, workers=(2, 7)))
    send(attempt.parent, DetailsRequest(id=new_id(), attempt=2, workers=(1,)))
    merging.look()
    assert node.detailed == {0, 2}
    for log in logs:
        log.close()
