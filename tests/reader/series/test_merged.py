from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from tests.reader.runs import DEAD_PID, info
from tests.store.records import record

from mothtrap.core.records import Scalar, StepRecord
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.tensors import TensorInfo
from mothtrap.reader.run import Run, open_run
from mothtrap.statistics import numpy as arithmetic
from mothtrap.statistics.summary import STATISTICS, derive
from mothtrap.store import layout
from mothtrap.store.worker_log import WorkerLog

ALL = tuple(s for s in STATISTICS if s not in ("inactive", "saturated", "update_ratio"))
Tensors = Mapping[TensorInfo, np.ndarray]


def gradient(scope: str, name: str = "fc.weight") -> TensorInfo:
    return TensorInfo(kind="gradient", name=name, scope=scope, global_shape=(4, 3))


def step(number: int, tensors: Tensors, *scalars: Scalar, mode: Mode = Mode.TRAIN) -> StepRecord:
    rows = arithmetic.summarize(list(tensors.values()), ALL)
    return record(
        number,
        key=StepKey(step=number, mode=mode, mode_step=number),
        defined=tuple(enumerate(tensors)) if number == 0 else (),
        tensor_T=np.arange(len(tensors), dtype=np.uint32),
        summary_TF=rows,
        scalars=scalars,
    )


def make(folder: Path, workers: Mapping[int, list[StepRecord]], attempt: int = 1) -> Run:
    run = folder / "job"
    if attempt == 1:
        made = layout.create_run(run, info(pid=DEAD_PID))
    else:
        made = layout.create_attempt(run, info(pid=DEAD_PID, attempt=attempt))
    for rank, records in workers.items():
        log = WorkerLog(layout.claim_worker(made, rank)[1])
        log.append(records)
        log.close()
    return open_run(run)


def whole() -> np.ndarray:
    values = np.random.default_rng(0).normal(3.0, 1.0, (4, 3))
    values[0, 0], values[3, 1], values[2, 2] = np.nan, np.inf, 0.0
    return values


def test_every_statistic_of_shards_is_that_of_the_whole(tmp_path: Path) -> None:
    values = whole()
    workers = {
        rank: [step(0, {gradient(f"shard {rank + 1}/2 of dim 0"): values[2 * rank : 2 * rank + 2]})]
        for rank in (0, 1)
    }
    matrices = make(tmp_path, workers).stats("gradient", statistics=ALL, worker="merged")
    row = arithmetic.summarize([values], ALL)
    for name, matrix in matrices.items():
        assert matrix.values_ST[0, 0] == pytest.approx(derive(row, name)[0], rel=1e-12), name
    (tensor,) = matrices["l2"].tensors
    assert (tensor.scope, tensor.shape, tensor.global_shape) == ("", (4, 3), ())


def test_a_step_that_lacks_a_shard_has_no_merged_value(tmp_path: Path) -> None:
    values = whole()
    first, second = gradient("shard 1/2 of dim 0"), gradient("shard 2/2 of dim 0")
    workers = {
        0: [step(number, {first: values[:2]}) for number in range(3)],
        1: [step(number, {second: values[2:]}) for number in range(2)],  # and then it died
    }
    run = make(tmp_path, workers)
    merged = run.stats("gradient", worker="merged")["l2"]
    assert merged.steps_S.tolist() == [0, 1]
    assert run.stats("gradient", worker=0)["l2"].steps_S.tolist() == [0, 1, 2]


def test_replicas_of_shards_count_once(tmp_path: Path) -> None:
    values = whole()
    workers = {
        rank: [
            step(
                0,
                {
                    gradient(f"replica over dp; shard {rank % 2 + 1}/2 of dim 1 over tp"): (
                        values[:, :2] if rank % 2 == 0 else values[:, 2:]
                    )
                },
            )
        ]
        for rank in range(4)
    }
    count = make(tmp_path, workers).stats("gradient", statistics=("count",), worker="merged")
    assert count["count"].values_ST.tolist() == [[12.0]]


def test_a_replica_is_taken_once_also_without_words(tmp_path: Path) -> None:
    for name, scope in (("named", "replica"), ("unnamed", "")):
        folder = tmp_path / name
        folder.mkdir()
        workers = {rank: [step(0, {gradient(scope): whole()})] for rank in (0, 1)}
        count = make(folder, workers).stats("gradient", statistics=("count",), worker="merged")
        assert count["count"].values_ST.tolist() == [[12.0]]


def test_parts_of_a_batch_are_put_together(tmp_path: Path) -> None:
    output = TensorInfo(kind="activation", name="fc")
    values = np.arange(12.0)
    workers = {
        rank: [step(n, {output: values[6 * rank : 6 * rank + 6]}) for n in range(2)]
        for rank in (0, 1)
    }
    merged = make(tmp_path, workers).stats(
        "activation", statistics=("mean", "max"), worker="merged"
    )
    assert merged["mean"].values_ST[:, 0].tolist() == [5.5, 5.5]
    assert merged["max"].values_ST[:, 0].tolist() == [11.0, 11.0]


def test_partial_sums_are_not_merged_but_read_by_worker(tmp_path: Path) -> None:
    workers = {rank: [step(0, {gradient("partial sum"): whole()})] for rank in (0, 1)}
    run = make(tmp_path, workers)
    assert len(run.stats("gradient", worker="merged")["l2"]) == 0
    assert len(run.stats("gradient", worker=1)["l2"]) == 1


def test_scalars_are_averaged_slowest_or_the_same(tmp_path: Path) -> None:
    def told(rank: int) -> list[StepRecord]:
        return [
            step(
                number,
                {},
                Scalar("loss", "main", 1.0 + rank),
                Scalar("lr", "adam", 0.1),
                Scalar("step_s", "", 0.5 + rank),
                Scalar("accuracy", "", np.nan if (rank, number) == (1, 1) else 0.5),
            )
            for number in range(3 - rank)
        ]

    run = make(tmp_path, {0: told(0), 1: told(1)})
    found = {series.name: series for series in run.scalars(worker="merged")}
    assert found["loss"].values_S.tolist() == [1.5, 1.5]
    assert found["lr"].values_S.tolist() == [0.1, 0.1]
    assert found["step_s"].values_S.tolist() == [1.5, 1.5]
    assert found["accuracy"].values_S[0] == 0.5
    assert np.isnan(found["accuracy"].values_S[1])
    assert found["loss"].steps_S.tolist() == [0, 1]


def test_an_attempt_with_fewer_workers_has_shards_of_its_own(tmp_path: Path) -> None:
    values = whole()
    two = {
        rank: [
            step(
                n,
                {gradient(f"shard {rank + 1}/2 of dim 0"): values[2 * rank : 2 * rank + 2]},
                Scalar("loss", "", 1.0 + rank),
            )
            for n in range(2)
        ]
        for rank in (0, 1)
    }
    make(tmp_path, two)
    defined = ((0, gradient("")),)
    rows = arithmetic.summarize([values], ALL)
    anew = [
        record(n, tensors=1, defined=defined, summary_TF=rows, scalars=(Scalar("loss", "", 9.0),))
        for n in (1, 2)
    ]
    run = make(tmp_path, {0: anew}, attempt=2)
    merged = run.stats("gradient", statistics=("count",), worker="merged")["count"]
    assert merged.steps_S.tolist() == [0, 1, 2]
    assert merged.values_ST[:, 0].tolist() == [12.0, 12.0, 12.0]
    (loss,) = run.scalars("loss", worker="merged")
    assert (loss.steps_S.tolist(), loss.values_S.tolist()) == ([0, 1, 2], [1.5, 9.0, 9.0])


def test_one_worker_merged_is_that_worker(tmp_path: Path) -> None:
    run = make(tmp_path, {0: [step(n, {gradient(""): whole() + n}) for n in range(3)]})
    alone, merged = (
        run.stats("gradient", statistics=("l2",), worker=w)["l2"] for w in (0, "merged")
    )  # type: ignore[arg-type]
    assert np.array_equal(alone.values_ST, merged.values_ST)
    assert np.array_equal(alone.steps_S, merged.steps_S)
