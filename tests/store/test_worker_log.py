from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.harness.running import FULL
from tests.store.records import plain, record, records

from mothtrap.core.facts.captures import Blind
from mothtrap.core.records import Scalar, StepRecord
from mothtrap.core.tensors import TensorInfo
from mothtrap.store.layout import segments
from mothtrap.store.worker_log import WorkerLog
from mothtrap.store.worker_reading import ReadState, read_records

KINDS = ("stats", "scalars", "events")
DEFINED_AT = 4
"""Position of the definitions in `plain`."""


def write(folder: Path, *chunks: list[StepRecord], seal: bool = True, **options: int) -> None:
    log = WorkerLog(folder, **options)
    for chunk in chunks:
        log.append(chunk)
    if seal:
        log.close()


@given(chunks=st.lists(st.lists(records(), max_size=3), max_size=4), seal=st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_record_comes_back_equal(chunks: list[list[StepRecord]], seal: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), *chunks, seal=seal)
        state = ReadState(Path(name))
        got = read_records(Path(name), state)
        assert [plain(r) for r in got] == [plain(r) for chunk in chunks for r in chunk]
        assert state.damage(ended=True) == ()


def test_sealed_and_live_read_the_same(tmp_path: Path) -> None:
    log = WorkerLog(tmp_path)
    log.append([record(0), record(1)])
    live = [plain(r) for r in read_records(tmp_path)]
    log.close()
    assert live == [plain(r) for r in read_records(tmp_path)]


def test_a_second_read_brings_only_what_is_new(tmp_path: Path) -> None:
    log, state = WorkerLog(tmp_path), ReadState(tmp_path)
    assert read_records(tmp_path, state) == []
    for step in range(5):
        log.append([record(step)])
        assert [r.key.step for r in read_records(tmp_path, state)] == [step]
        assert read_records(tmp_path, state) == []
    log.close()
    assert read_records(tmp_path, state) == []
    assert state.damage(ended=True) == ()


def test_segments_roll_and_read_on(tmp_path: Path) -> None:
    expected = [record(step) for step in range(40)]
    log, state = WorkerLog(tmp_path, roll_bytes=4096), ReadState(tmp_path)
    got = []
    for item in expected:
        log.append([item])
        got += read_records(tmp_path, state)
    log.close()
    assert len(segments(tmp_path, "stats")) > 3
    assert [plain(r) for r in got] == [plain(r) for r in expected]
    assert [plain(r) for r in read_records(tmp_path)] == [plain(r) for r in expected]


def test_a_log_opened_again_in_the_same_folder_continues(tmp_path: Path) -> None:
    write(tmp_path, [record(0)], seal=False)
    write(tmp_path, [record(1)])
    assert [r.key.step for r in read_records(tmp_path)] == [0, 1]


def test_a_row_of_statistics_repeats_nothing_of_its_record(tmp_path: Path) -> None:
    write(tmp_path, [record(0), record(1)])
    rows = pa.ipc.open_file(tmp_path / "stats-00000000.arrow").read_all()
    assert rows.schema.names == ["record", "tensor", "summary"]
    assert rows.column("record").to_pylist() == [0, 0, 0, 1, 1, 1]


def test_statistics_at_once_are_joined_in_batches_that_fit_into_the_caches(tmp_path: Path) -> None:
    items = [record(step, tensors=9000, defined=()) for step in range(8)]  # of 0.94 MB each
    write(tmp_path, items[:7], items[7:])
    with pa.ipc.open_file(tmp_path / "stats-00000000.arrow") as file:
        rows = [file.get_batch(i).num_rows for i in range(file.num_record_batches)]
    assert rows == [9000] * 8
    assert [plain(r) for r in read_records(tmp_path)] == [plain(r) for r in items]


def test_names_that_unicode_cannot_hold_are_escaped(tmp_path: Path) -> None:
    item = record(
        0,
        defined=((0, TensorInfo(kind="weight", name="a\ud800/../\0\n🦋")),),
        scalars=(Scalar("lo\udfffss", "", 1.0),),
        observations=(Blind(step=0, what="\ud800", reason='"};'),),
    )
    write(tmp_path, [item])
    (got,) = read_records(tmp_path)
    assert got.defined[0][1].name == "a\\ud800/../\0\n🦋"
    assert got.scalars == (Scalar("lo\\udfffss", "", 1.0),)
    assert got.observations == (Blind(step=0, what="\\ud800", reason='"};'),)


def test_every_truncation_gives_a_prefix(tmp_path: Path) -> None:
    expected = [plain(record(step, tensors=1)) for step in range(3)]
    write(tmp_path, *([record(step, tensors=1)] for step in range(3)), seal=False)
    whole = (tmp_path / "events-00000000.arrow").read_bytes()
    counts = []
    for size in sorted({*range(0, len(whole), 1 if FULL else 3), len(whole)}):
        (tmp_path / "events-00000000.arrow").write_bytes(whole[:size])
        got = [plain(r) for r in read_records(tmp_path)]
        assert got == expected[: len(got)]
        counts.append(len(got))
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert counts[-1] == 3


@pytest.mark.parametrize("kind", ["stats", "scalars"])
def test_truncated_numbers_leave_the_rest_of_the_step(tmp_path: Path, kind: str) -> None:
    write(tmp_path, *([record(step, tensors=1)] for step in range(3)), seal=False)
    path = tmp_path / f"{kind}-00000000.arrow"
    path.write_bytes(path.read_bytes()[:-1])
    state = ReadState(tmp_path)
    got = read_records(tmp_path, state)
    assert [plain(r) for r in got[:2]] == [plain(record(step, tensors=1)) for step in range(2)]
    assert (len(got[2].tensor_T), len(got[2].scalars)) == ((0, 2) if kind == "stats" else (1, 0))
    assert any("1 steps lack numbers" in text for text in state.damage())
    assert any("contain no complete batch" in text for text in state.damage(ended=True))


@pytest.mark.parametrize("sealed", [True, False])
def test_a_flipped_bit_never_gives_a_wrong_value(tmp_path: Path, sealed: bool) -> None:
    dice = random.Random(3)
    written = [
        record(step, observations=(Blind(step=step, what="x", reason="y"),)) for step in range(8)
    ]
    expected = {r.key.step: plain(r) for r in written}
    write(tmp_path, *([r] for r in written), seal=sealed)
    changed = 0
    for _ in range(200):
        path = tmp_path / f"{dice.choice(KINDS)}-00000000.arrow"
        good = path.read_bytes()
        bad = bytearray(good)
        bad[dice.randrange(len(bad))] ^= 1 << dice.randrange(8)
        path.write_bytes(bad)
        state = ReadState(tmp_path)
        got = read_records(tmp_path, state)
        for item in got:
            full = expected[item.key.step]
            found = list(plain(item))
            if found[DEFINED_AT] == expected[0][DEFINED_AT]:  # may be repeated one record later
                found[DEFINED_AT] = full[DEFINED_AT]
            assert all(a == b or not b or b == (0, 13) for a, b in zip(full, found, strict=True))
        if [plain(r) for r in got] != list(expected.values()):
            changed += 1
            assert state.damage(ended=True)
        path.write_bytes(good)
    assert changed > 50  # otherwise the flips did not hit and nothing was tested


def test_names_of_tensors_survive_the_loss_of_the_batch_that_defines_them(tmp_path: Path) -> None:
    write(tmp_path, [record(step) for step in range(20)])
    path = tmp_path / "events-00000000.arrow"
    data = bytearray(path.read_bytes())
    data[data.index(b'"wall_s":1000000000.0')] ^= 1
    path.write_bytes(data)
    state = ReadState(tmp_path)
    got = read_records(tmp_path, state)
    assert state.damage()
    assert 15 <= len(got) < 20
    assert got[0].defined == record(0).defined
    assert not any(item.defined for item in got[1:])


def test_a_flipped_bit_costs_a_part_of_what_was_written_at_once(tmp_path: Path) -> None:
    items = [record(step) for step in range(40)]
    write(tmp_path, items)
    for kind in KINDS:
        path = tmp_path / f"{kind}-00000000.arrow"
        good = path.read_bytes()
        for at in range(0, len(good), len(good) // 40):
            bad = bytearray(good)
            bad[at] ^= 1
            path.write_bytes(bad)
            state = ReadState(tmp_path)
            got = read_records(tmp_path, state)
            whole = [item for item in got if len(item.tensor_T) and item.scalars]
            assert len(whole) >= 20, (kind, at, state.damage(ended=True))
            assert len(whole) == 40 or state.damage(ended=True)
        path.write_bytes(good)


def test_a_damaged_batch_costs_that_batch_alone(tmp_path: Path) -> None:
    write(tmp_path, *([record(step)] for step in range(5)))
    path = tmp_path / "events-00000000.arrow"
    data = bytearray(path.read_bytes())
    data[data.index(b'"wall_s":1000000000.25')] ^= 1
    path.write_bytes(data)
    state = ReadState(tmp_path)
    assert [r.key.step for r in read_records(tmp_path, state)] == [0, 1, 3, 4]
    assert any("before batch 3 are damaged" in text for text in state.damage())


@pytest.mark.parametrize("junk", [b"", b"ARROW1", b"\0" * 4096, b"\xff" * 100_000, b"batch:" * 999])
def test_files_that_are_no_segments_are_reported(tmp_path: Path, junk: bytes) -> None:
    write(tmp_path, [record(0)])
    (tmp_path / "events-00000001.arrow").write_bytes(junk)
    (tmp_path / "events-00000002.arrow").write_bytes(b"ARROW1\0\0" + junk)
    state = ReadState(tmp_path)
    assert len(read_records(tmp_path, state)) == 1
    assert state.damage(ended=True) or not junk


def test_a_refused_write_leaves_a_log_that_reads_and_writes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = WorkerLog(tmp_path)
    log.append([record(0)])
    real = os.write

    def part_of_it(file: int, data: memoryview) -> int:
        if real(file, data[:100]) == 100:
            raise OSError(28, "No space left on device")
        return 100

    monkeypatch.setattr(os, "write", part_of_it)
    with pytest.raises(OSError, match="No space left"):
        log.append([record(1)])
    monkeypatch.setattr(os, "write", real)
    log.append([record(1)])
    log.close()
    state = ReadState(tmp_path)
    got = read_records(tmp_path, state)
    assert [plain(r) for r in got] == [plain(record(0)), plain(record(1))]
    assert state.damage(ended=True) == ()


WRITER = """
import sys
from pathlib import Path
from mothtrap.store.worker_log import WorkerLog
from tests.store.records import record
log = WorkerLog(Path(sys.argv[1]), roll_bytes=20_000)
for step in range(10**9):
    log.append([record(step)])
    print(step, flush=True)
"""


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    for acknowledged_before_kill in (1, 57):
        folder = tmp_path / str(acknowledged_before_kill)
        folder.mkdir()
        command = [sys.executable, "-c", WRITER, str(folder)]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert writer.stdout
        for _ in range(acknowledged_before_kill):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        last = [int(line) for line in writer.stdout.read().split()][-1:]
        writer.wait()
        writer.stdout.close()
        got = read_records(folder)
        assert len(got) > max(acknowledged_before_kill - 1, *last, 0)
        assert [plain(r) for r in got] == [plain(record(step)) for step in range(len(got))]
