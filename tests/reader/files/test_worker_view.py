from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reader.runs import closing, info, write_worker
from tests.store.records import record, records

from mothtrap.core.needs import Need
from mothtrap.core.records import StepRecord
from mothtrap.core.steps import Mode
from mothtrap.core.window import Matrix, Series
from mothtrap.reader.files import committed_rows
from mothtrap.reader.run import open_run
from mothtrap.reader.series.windows import WindowBuilder
from mothtrap.statistics.summary import STATISTICS
from mothtrap.store import layout
from mothtrap.store.tailing import SegmentReader
from mothtrap.store.worker_log import WorkerLog

KINDS = ("weight", "gradient", "activation")


def plain_series(series: Series) -> tuple[object, ...]:
    about = (series.name, series.of, series.mode, series.location, series.optimizers, series.total)
    return (*about, series.steps_S.tobytes(), series.values_S.tobytes())


def plain_matrix(matrix: Matrix) -> tuple[object, ...]:
    return (
        matrix.tensors,
        matrix.steps_S.tobytes(),
        matrix.present_ST.tobytes(),
        np.where(matrix.present_ST, matrix.values_ST, 0).tobytes(),
        matrix.skipped_S.tobytes(),
    )


def in_order(found: list[StepRecord]) -> list[StepRecord]:
    """Return records as a worker makes them: ascending steps, and all tensors defined first."""
    defined = {number: (number, info) for r in found for number, info in r.defined}
    identities = {info.identity: number for number, info in defined.values()}
    chosen = tuple(defined[number] for number in identities.values())
    ordered = sorted(found, key=lambda r: r.key.step)
    return [
        StepRecord(
            key=r.key,
            wall_s=r.wall_s,
            optimizers=("adam",),
            skipped=r.skipped,
            defined=chosen if place == 0 else (),
            tensor_T=np.unique(r.tensor_T),
            summary_TF=r.summary_TF[: len(np.unique(r.tensor_T))],
            scalars=r.scalars,
            observations=r.observations,
        )
        for place, r in enumerate(ordered)
    ]


@given(found=st.lists(records(), max_size=8), cut=st.integers(0, 8))
def test_columns_say_what_windows_say(
    tmp_path_factory: pytest.TempPathFactory, found: list[StepRecord], cut: int
) -> None:
    whole = in_order(found)
    attempt = layout.create_run(tmp_path_factory.mktemp("r") / "x", info())
    log = WorkerLog(layout.claim_worker(attempt)[1], roll_bytes=4000)
    run = open_run(attempt.parent)
    for part in (whole[:cut], whole[cut:]):
        log.append(part)
        run.refresh()
        got_series = run.scalars()
        matrices = {kind: run.stats(kind, statistics=STATISTICS) for kind in KINDS}
    log.close()
    builder = WindowBuilder([Need(kinds=KINDS, statistics=STATISTICS, steps=1 << 40)], steps=1000)
    for item in whole:
        builder.feed(item)
    window = builder.window(0.0)
    assert list(map(plain_series, got_series)) == list(map(plain_series, window.series))
    for kind in KINDS:
        for statistic in STATISTICS:
            expected = window.matrix(kind, statistic)
            got = matrices[kind][statistic]
            assert len(got) == (len(expected) if expected else 0)
            if expected:
                assert plain_matrix(got) == plain_matrix(expected)


def test_no_byte_is_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = layout.create_run(tmp_path / "x", info())
    log = WorkerLog(layout.claim_worker(attempt)[1], roll_bytes=5000)
    log.append([record(step) for step in range(30)])
    read: dict[Path, int] = {}
    reading = SegmentReader._read

    def counted(self: SegmentReader, at_once: int) -> bytes:
        data = reading(self, at_once)
        read[self.path] = read.get(self.path, 0) + len(data)
        return data

    monkeypatch.setattr(SegmentReader, "_read", counted)
    run = open_run(tmp_path / "x")

    def ask() -> None:
        assert len(run.stats("gradient", statistics=("l2", "mean"))["l2"]) == run.steps
        assert len(run.tensor("layer1").history("max")) == run.steps
        assert len(run.range(3).scalars("loss")[0]) == run.steps - 3
        assert len(run.table("steps")) == run.steps
        assert run.tensors(step=7)
        assert run.damage == ()

    assert {path.name.split("-")[0] for path in read} == {"events"}  # data that were not requested
    ask()
    for step in range(30, 60):
        log.append([record(step)])
        run.refresh()
        ask()
    log.close()
    run.refresh()
    ask()
    over = {p.name: (n, p.stat().st_size) for p, n in read.items() if n > p.stat().st_size}
    assert over == {}
    assert len(read) == len(list((attempt / "w0").iterdir()))


def test_pieces_stay_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = layout.create_run(tmp_path / "x", info())
    log = WorkerLog(layout.claim_worker(attempt)[1])
    run = open_run(tmp_path / "x")
    for step in range(200):
        log.append([record(step)])
        run.refresh()
        assert len(run.stats("gradient")["l2"]) == step + 1
    pieces = run._files.attempts[1].workers[0].statistics()
    few = len(pieces)
    assert few <= 8  # 200 in binary has 8 digits
    assert sum(len(piece.commit_N) for piece in pieces) == 600
    monkeypatch.setattr(committed_rows, "SMALL_ROWS", 0)
    log.append([record(200)])
    run.refresh()
    assert len(run.stats("gradient")["l2"]) == 201
    assert len(pieces) == few + 1
    log.close()


@pytest.mark.parametrize("kind", ["stats", "scalars"])
def test_what_is_damaged_is_left_out_and_told(tmp_path: Path, kind: str) -> None:
    attempt = layout.create_run(tmp_path / "x", info())
    write_worker(attempt, *(record(step) for step in range(5)), closing(5))
    path = attempt / "w0" / f"{kind}-00000000.arrow"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    run = open_run(tmp_path / "x")
    found = run.stats("gradient")["l2"].steps_S, run.scalars("loss", Mode.TRAIN)[0].steps_S
    assert sorted(map(len, found)) == [4, 5]
    told = " ".join(run.damage)
    assert f"1/w0/{kind}-00000000.arrow" in told
    assert "1 steps lack" in told


def test_rows_without_their_step_do_not_exist(tmp_path: Path) -> None:
    attempt = layout.create_run(tmp_path / "x", info())
    log = write_worker(attempt, record(0), seal=False)
    events = attempt / "w0" / "events-00000000.arrow"
    before = events.read_bytes()
    log.append([record(1)])
    whole = events.read_bytes()
    events.write_bytes(before)  # as if it were still in transit
    run = open_run(tmp_path / "x")
    assert run.stats("gradient")["l2"].steps_S.tolist() == [0]
    assert run.scalars("loss")[0].steps_S.tolist() == [0]
    events.write_bytes(whole)
    run.refresh()
    assert run.stats("gradient")["l2"].steps_S.tolist() == [0, 1]
    assert run.scalars("loss")[0].steps_S.tolist() == [0, 1]
    log.close()
