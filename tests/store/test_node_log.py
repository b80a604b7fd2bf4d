from __future__ import annotations

import math
from pathlib import Path

from mothtrap.core.facts.replicas import ReplicaDigests
from mothtrap.store.node_log import NodeLog, NodeReader, NodeRows, WorkerFact, WorkerStep

DIGESTS = ReplicaDigests(step=4, digests={"fc": "a"})


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    log, reader = NodeLog(tmp_path / "n"), NodeReader(tmp_path / "n")
    assert reader.poll() == NodeRows([], [], 0.0)
    steps = [WorkerStep(7, 4, 10.5, step_s=0.25, loss=1.5), WorkerStep(8, 4, 10.75)]
    log.append(steps, [WorkerFact(7, 10.5, DIGESTS)], 11.0)
    assert reader.poll() == NodeRows(steps, [WorkerFact(7, 10.5, DIGESTS)], 11.0)
    log.append([], [], 12.0)
    assert reader.poll() == NodeRows([], [], 12.0)
    assert reader.damage() == ()


def test_a_loss_that_is_not_finite_differs_from_no_loss(tmp_path: Path) -> None:
    NodeLog(tmp_path).append([WorkerStep(0, 1, 1.0, loss=math.nan), WorkerStep(0, 2, 2.0)], [], 3.0)
    bad, missing = NodeReader(tmp_path).poll().steps
    assert bad.loss is not None
    assert math.isnan(bad.loss)
    assert missing.loss is None


def test_a_step_takes_at_most_64_bytes(tmp_path: Path) -> None:
    many = [WorkerStep(n % 32, n, float(n), 0.1, 2.0, 3.0) for n in range(10_000)]
    log = NodeLog(tmp_path)
    log.append(many, [], 1.0)
    log.close()
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert size < 64 * len(many)
